// Two takes side by side: A and B play from the same place at equal loudness, and a key switches between them.
const studioCompare = (() => {
  const LEVEL_DB = -23;  // EBU R 128; only ever turned down, so that nothing clips
  const sides = { a: null, b: null };
  let context = null;
  let heard = "a";
  let begun_s = 0;  // of the context's clock, less the place in the takes
  let isPlaying = false;

  const bar = () => document.querySelector("#compare");
  const both = () => sides.a !== null && sides.b !== null;
  const length_s = () => Math.max(sides.a.buffer.duration, sides.b.buffer.duration);

  // Loudness by ITU-R BS.1770: the ear's weighting, blocks of 0.4 s, the quiet ones left out.
  const loudness = async (buffer) => {
    const ear = new OfflineAudioContext(1, buffer.length, buffer.sampleRate);
    const source = new AudioBufferSourceNode(ear, { buffer });
    const head = new BiquadFilterNode(ear, { type: "highshelf", frequency: 1500, gain: 4 });
    const rumble = new BiquadFilterNode(ear, { type: "highpass", frequency: 38, Q: 0.5 });
    source.connect(head).connect(rumble).connect(ear.destination);
    source.start();
    const samples = (await ear.startRendering()).getChannelData(0);
    const size = Math.round(0.4 * buffer.sampleRate);
    const powers = [];
    for (let begin = 0; begin < samples.length; begin += size / 4) {
      const block = samples.subarray(begin, begin + size);
      powers.push(block.reduce((sum, sample) => sum + sample * sample, 0) / block.length);
    }
    const mean = (values) => values.reduce((sum, value) => sum + value, 0) / Math.max(1, values.length);
    const loud = powers.filter((power) => power > 10 ** -7);
    const gated = loud.filter((power) => power > mean(loud) / 10);
    return 10 * Math.log10(mean(gated) + 1e-12) - 0.691;
  };

  const choose = async (button) => {
    const { side, sound } = button.dataset;
    context ??= new AudioContext();
    stop();
    const id = button.closest(".entry").dataset.id;
    const caption = button.closest(".entry").querySelector(".play").dataset.caption;
    try {
      const buffer = await context.decodeAudioData(await (await fetch(sound)).arrayBuffer());
      sides[side] = { id, caption, buffer, level_db: await loudness(buffer) };
    } catch {
      sides[side] = null;
    }
    show();
  };

  const gains = () => {
    const quietest = Math.min(LEVEL_DB, sides.a.level_db, sides.b.level_db);
    return Object.fromEntries(Object.entries(sides).map(([side, { level_db }]) => [side, 10 ** ((quietest - level_db) / 20)]));
  };
  const place_s = () => (isPlaying ? Math.min(length_s(), context.currentTime - begun_s) : 0);
  const play = (from_s = 0) => {
    if (!both()) return;
    document.querySelectorAll("audio").forEach((audio) => audio.pause());
    stop();
    context.resume();
    const levels = gains();
    begun_s = context.currentTime + 0.05 - from_s;
    for (const [side, it] of Object.entries(sides)) {
      it.source = new AudioBufferSourceNode(context, { buffer: it.buffer });
      it.gain = new GainNode(context, { gain: side === heard ? levels[side] : 0 });
      it.source.connect(it.gain).connect(context.destination);
      it.source.start(context.currentTime + 0.05, from_s);
    }
    isPlaying = true;
    tick();
  };
  const stop = () => {
    isPlaying = false;
    for (const it of Object.values(sides)) {
      it?.source?.stop();
      if (it) it.source = null;
    }
  };
  const toggle = () => {
    if (!both()) return false;
    heard = heard === "a" ? "b" : "a";
    if (isPlaying) {
      const levels = gains();
      for (const [side, it] of Object.entries(sides)) it.gain.gain.setTargetAtTime(side === heard ? levels[side] : 0, context.currentTime, 0.008);
    } else play();
    show();
    return true;
  };
  const tick = () => {
    if (isPlaying && context.currentTime - begun_s >= length_s()) stop();
    show();
    if (isPlaying) setTimeout(tick, 200);
  };

  const show = () => {
    const shown = bar();
    if (!shown) return;
    for (const side of ["a", "b"]) {
      const it = sides[side];
      const button = shown.querySelector(`[data-hear="${side}"]`);
      button.disabled = it === null;
      button.setAttribute("aria-pressed", String(both() && heard === side));
      const name = button.querySelector("bdi");  // written only when it is new: the page is watched
      if (name.textContent !== (it?.caption ?? "–")) name.textContent = it?.caption ?? "–";
      document.querySelectorAll(`.side[data-side="${side}"]`).forEach((each) => {
        const isChosen = String(each.closest(".entry").dataset.id === it?.id);
        if (each.getAttribute("aria-pressed") !== isChosen) each.setAttribute("aria-pressed", isChosen);
      });
    }
    shown.hidden = sides.a === null && sides.b === null;
    shown.querySelector("[data-compare=play]").disabled = !both();
    shown.querySelector("[data-compare=play]").setAttribute("aria-pressed", String(isPlaying));
    shown.querySelector("progress").value = both() && isPlaying ? place_s() / length_s() : 0;
  };

  document.addEventListener("click", (event) => {
    const button = event.target.closest?.(".side, #compare button");
    if (!button) return;
    if (button.matches(".side")) choose(button);
    else if (button.dataset.compare === "play") {
      if (isPlaying) stop(); else play();
      show();
    } else if (button.dataset.hear !== heard) toggle();
    else if (!isPlaying) { play(); show(); }
  });
  document.addEventListener("keydown", (event) => {
    if (event.key.toLowerCase() !== "x" || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest?.("input, textarea, select, [contenteditable]") || !both()) return;
    if (bar()?.offsetParent === null) return;
    event.preventDefault();
    toggle();
  });
  return { show, get state() { return { heard, isPlaying, place_s: both() ? place_s() : 0, levels: both() ? gains() : null }; } };
})();
