// The player: it reads a request's samples while they are made, hands them to the audio thread and draws them.
const studioPlayer = (() => {
  const find = (selector) => document.querySelector(selector);
  const PEAKS_HZ = 100;
  // The waveform begins as wide as so many seconds and is drawn closer as it grows.
  const LEAST_WIDTH_S = 6;

  let context = null;  // made at the first touch: before one, browsers keep it silent
  let loading = null;
  let sound = null;    // what is played now
  let pressed = 0;     // when Speak was pressed, in ms

  const canPlay = () => window.isSecureContext && "AudioWorkletNode" in window;
  const wake = (rate = 44100) => {
    if (!canPlay()) return null;
    if (context?.sampleRate !== rate) {
      context?.close();
      context = new AudioContext({ sampleRate: rate, latencyHint: "interactive" });
      const source = new Blob(["WORKLET"], { type: "text/javascript" });
      loading = context.audioWorklet.addModule(URL.createObjectURL(source));
      loading.catch(() => { loading = null; });
    }
    if (context.state === "suspended") context.resume().catch(() => {});
    return loading;
  };
  for (const touch of ["pointerdown", "keydown"]) {
    document.addEventListener(touch, () => { if (find("#player")) wake(); }, { capture: true, passive: true });
  }

  // Before Speak: what follows the visitor's text says whether this browser plays the stream itself.
  document.addEventListener("click", (event) => {
    if (event.target.closest?.("#speak, [data-do=again]")) pressed = event.timeStamp;
  }, true);
  const listens = (kept, _, ...inputs) => {
    let hears = false;
    try {
      silence();
      hears = wake() !== null;
    } catch { /* no sound device: then Gradio's player has the word */ }
    return [kept, hears ? "worklet" : "", ...inputs];
  };

  const listen = async (address, rate) => {
    leave();
    const wanted = wake(rate);
    const mine = { rate, pieces: [], length: 0, peaks: [], place: 0, isPlaying: true, hasEnded: false, drop: new AbortController() };
    sound = mine;
    find("#player").hidden = false;
    find("#first-sound").textContent = "";
    showSpectrum(false);
    const coming = fetch(address, { signal: mine.drop.signal });
    await wanted;
    if (sound !== mine) return mine.drop.abort();
    mine.node = new AudioWorkletNode(context, "speech", { numberOfInputs: 0, outputChannelCount: [2] });
    mine.gain = new GainNode(context, { gain: volume() });
    mine.node.connect(mine.gain).connect(context.destination);
    mine.node.port.onmessage = ({ data }) => told(mine, data);
    mine.node.port.postMessage({ play: true });
    try {
      const response = await coming;
      if (!response.ok) return;
      let odd = new Uint8Array(0);
      for await (const piece of pieces(response.body)) {
        const bytes = new Uint8Array(odd.length + piece.length);
        bytes.set(odd);
        bytes.set(piece, odd.length);
        const whole = bytes.length - (bytes.length % 2);
        odd = bytes.slice(whole);
        take(mine, new Int16Array(bytes.buffer.slice(0, whole)));
      }
    } catch { /* left, or cut: what was heard stays */ } finally {
      mine.hasEnded = true;
      mine.node.port.postMessage({ end: true });
      draw();
    }
  };
  async function* pieces(body) {  // Safari's streams are not iterable
    const reader = body.getReader();
    for (let read; !(read = await reader.read()).done;) yield read.value;
  }

  const take = (mine, samples) => {
    mine.pieces.push(samples);
    const every = Math.round(mine.rate / PEAKS_HZ);
    for (let n = 0; n < samples.length; n++) {
      const peak = Math.floor((mine.length + n) / every);
      mine.peaks[peak] = Math.max(mine.peaks[peak] ?? 0, Math.abs(samples[n]) / 32768);
    }
    mine.length += samples.length;
    mine.node.port.postMessage({ samples });
    draw();
  };

  const told = (mine, { place, isPlaying, isHeard }) => {
    if (isHeard) {
      // The audio thread has handed it on; the device adds its own latency.
      player.firstFrame_ms = performance.now() - pressed;
      player.heardAfter_ms = player.firstFrame_ms + 1000 * (context.outputLatency || context.baseLatency || 0);
      if (mine === sound) find("#first-sound").textContent = find("#first-sound").dataset.words.replace("{}", (player.heardAfter_ms / 1000).toFixed(1));
      return;
    }
    mine.place = place;
    mine.isPlaying = isPlaying;
    if (mine === sound) draw();
  };

  const say = (message) => sound?.node?.port.postMessage(message);
  const silence = () => { if (sound) { sound.isPlaying = false; say({ play: false }); } };
  // Stop, or another press: the request ends with whoever listens.
  const leave = () => {
    if (!sound) return;
    silence();
    if (!sound.hasEnded) sound.drop.abort();
  };
  const hush = () => {  // another sound of the page is played
    silence();
    draw();
  };
  const close = () => {
    leave();
    sound?.node?.disconnect();
    sound = null;
    const player = find("#player");
    if (player) player.hidden = true;
  };
  const toggle = () => {
    if (!sound?.node) return;
    if (!sound.isPlaying) document.querySelectorAll("audio").forEach((audio) => audio.pause());
    wake(sound.rate);
    const isOver = sound.hasEnded && sound.place >= sound.length;
    say(sound.isPlaying ? { play: false } : isOver ? { place: 0, play: true } : { play: true });
  };
  const seek = (seconds) => {
    if (!sound?.node) return;
    sound.place = Math.max(0, Math.min(sound.length, Math.round(seconds * sound.rate)));
    say({ place: sound.place });
    draw();
  };

  const clock = (seconds) => `${Math.floor(seconds / 60)}:${String(Math.floor(seconds % 60)).padStart(2, "0")}`;
  const shown_s = () => {
    const length_s = sound.length / sound.rate;
    return sound.hasEnded ? Math.max(length_s, 0.01) : Math.max(LEAST_WIDTH_S, 2 ** Math.ceil(Math.log2(length_s + 1)));
  };
  let isDrawing = false;
  const draw = () => {
    if (isDrawing) return;
    isDrawing = true;
    requestAnimationFrame(() => { isDrawing = false; if (sound) paint(); });
  };
  const sized = (canvas) => {
    const scale = window.devicePixelRatio || 1;
    const [width, height] = [Math.round(canvas.clientWidth * scale), Math.round(canvas.clientHeight * scale)];
    if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
    return { pen: canvas.getContext("2d"), width, height, scale };
  };
  const paint = () => {
    const wave = find("#wave");
    const [place_s, length_s] = [sound.place / sound.rate, sound.length / sound.rate];
    find("#clock").textContent = `${clock(place_s)} / ${clock(length_s)}`;
    wave.setAttribute("aria-valuemax", length_s.toFixed(1));
    wave.setAttribute("aria-valuenow", place_s.toFixed(1));
    wave.setAttribute("aria-valuetext", find("#clock").textContent);
    find("#play").setAttribute("aria-pressed", String(sound.isPlaying));
    find("#player").dataset.state = sound.isPlaying ? "playing" : sound.hasEnded ? "ready" : "waiting";
    const { pen, width, height, scale } = sized(wave.firstElementChild);
    const style = getComputedStyle(wave);
    const [rest, played] = [style.getPropertyValue("--edge"), style.getPropertyValue("--accent")];
    const step = 3 * scale;
    const bars = Math.floor(width / step);
    const perBar = (shown_s() * PEAKS_HZ) / bars;
    const loudest = Math.max(0.05, ...sound.peaks.length < 60000 ? sound.peaks : [1]);
    pen.clearRect(0, 0, width, height);
    for (let bar = 0; bar < bars; bar++) {
      const from = Math.floor(bar * perBar);
      if (from >= sound.peaks.length) break;
      let peak = 0;
      for (let n = from; n < Math.max(from + 1, (bar + 1) * perBar) && n < sound.peaks.length; n++) peak = Math.max(peak, sound.peaks[n]);
      const tall = Math.max(2 * scale, (peak / loudest) * (height - 4 * scale));
      pen.fillStyle = from / PEAKS_HZ < place_s ? played : rest;
      pen.fillRect(bar * step, (height - tall) / 2, 2 * scale, tall);
    }
    pen.fillStyle = played;
    pen.fillRect(Math.min(width - 2 * scale, (place_s / shown_s()) * width), 0, 2 * scale, height);
  };

  // The spectrogram: 23 ms windows, 0 to 11 kHz upwards, 70 dB from faint to full.
  const showSpectrum = (isShown) => {
    const canvas = find("#spectrum");
    canvas.hidden = !isShown;
    find("#spectrum-switch").setAttribute("aria-pressed", String(isShown));
    if (isShown && sound) paintSpectrum(canvas);
  };
  const paintSpectrum = (canvas) => {
    const { pen, width, height } = sized(canvas);
    const samples = new Float32Array(sound.length);
    let at = 0;
    for (const piece of sound.pieces) { for (const sample of piece) samples[at++] = sample / 32768; }
    const size = 1024;
    const bins = Math.floor((size * 11025) / sound.rate);
    const columns = Math.max(1, Math.min(width, 800));
    const window_ = Float32Array.from({ length: size }, (_, n) => 0.5 - 0.5 * Math.cos((2 * Math.PI * n) / size));
    const picture = new ImageData(columns, bins);
    const isDark = document.body.classList.contains("dark");
    const [low, high] = isDark ? [[28, 28, 32], [255, 154, 108]] : [[255, 255, 255], [150, 45, 15]];
    for (let column = 0; column < columns; column++) {
      const begin = Math.floor((column / columns) * Math.max(0, samples.length - size));
      const real = new Float32Array(size), imaginary = new Float32Array(size);
      for (let n = 0; n < size; n++) real[n] = (samples[begin + n] ?? 0) * window_[n];
      transform(real, imaginary);
      for (let bin = 0; bin < bins; bin++) {
        const power = real[bin] ** 2 + imaginary[bin] ** 2;
        const level = Math.min(1, Math.max(0, (10 * Math.log10(power + 1e-12) + 30) / 70));
        const pixel = 4 * ((bins - 1 - bin) * columns + column);
        for (let part = 0; part < 3; part++) picture.data[pixel + part] = low[part] + level * (high[part] - low[part]);
        picture.data[pixel + 3] = 255;
      }
    }
    const small = new OffscreenCanvas(columns, bins);
    small.getContext("2d").putImageData(picture, 0, 0);
    pen.drawImage(small, 0, 0, width, height);
  };
  const transform = (real, imaginary) => {  // Cooley and Tukey, in place
    const size = real.length;
    for (let n = 1, m = 0; n < size; n++) {
      let bit = size >> 1;
      for (; m & bit; bit >>= 1) m ^= bit;
      m ^= bit;
      if (n < m) [real[n], real[m]] = [real[m], real[n]];
    }
    for (let half = 1; half < size; half *= 2) {
      for (let k = 0; k < half; k++) {
        const [cos, sin] = [Math.cos((Math.PI * k) / half), -Math.sin((Math.PI * k) / half)];
        for (let n = k; n < size; n += 2 * half) {
          const m = n + half;
          const [re, im] = [real[m] * cos - imaginary[m] * sin, real[m] * sin + imaginary[m] * cos];
          [real[m], imaginary[m]] = [real[n] - re, imaginary[n] - im];
          real[n] += re;
          imaginary[n] += im;
        }
      }
    }
  };

  const volume = () => Number(find("#volume input").value) ** 2;  // by ear, not by number
  document.addEventListener("input", (event) => {
    if (event.target.closest?.("#volume") && sound?.gain) sound.gain.gain.value = volume();
  });
  document.addEventListener("click", (event) => {
    if (event.target.closest?.("#play")) toggle();
    if (event.target.closest?.("#spectrum-switch")) showSpectrum(find("#spectrum").hidden);
  });
  const drag = (event) => {
    const { left, width } = find("#wave").getBoundingClientRect();
    seek(((event.clientX - left) / width) * shown_s());
  };
  document.addEventListener("pointerdown", (event) => {
    const wave = event.target.closest?.("#wave");
    if (!wave || !sound) return;
    wave.setPointerCapture(event.pointerId);
    wave.onpointermove = drag;
    wave.onpointerup = wave.onpointercancel = () => { wave.onpointermove = null; };
    drag(event);
  });
  const STEPS_S = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -10, PageUp: 10, Home: -Infinity, End: Infinity };
  document.addEventListener("keydown", (event) => {
    if (event.target.id === "wave" && event.key in STEPS_S && sound) {
      event.preventDefault();
      seek(sound.place / sound.rate + STEPS_S[event.key]);
    } else if (event.key === " " && sound && !event.target.closest?.("input, textarea, select, button, a, summary, [role=tab], [role=option], [contenteditable]")) {
      if (find("#player").offsetParent === null) return;
      event.preventDefault();
      toggle();
    }
  });
  window.addEventListener("resize", draw);
  document.addEventListener("play", hush, true);  // a sound of a list

  // What is being spoken is told by an element that the server puts into the page.
  let heard = "";
  const look = () => {
    const stream = find("#stream [data-stream]");
    if (sound && find("#stream [data-closed]")) close();
    const address = stream?.dataset.stream ?? "";
    if (address === heard) return;
    heard = address;
    if (address) listen(address, Number(stream.dataset.rate));
  };
  const player = {
    look, listens, leave, close, draw, firstFrame_ms: null, heardAfter_ms: null,
    get state() { return sound && { place_s: sound.place / sound.rate, length_s: sound.length / sound.rate, isPlaying: sound.isPlaying, hasEnded: sound.hasEnded }; },
  };
  return player;
})();
