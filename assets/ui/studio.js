// Keys, the live region, the theme switch, the players and the lists: what Gradio has no setting for.
(() => {
  const find = (selector) => document.querySelector(selector);
  const isShown = (element) => (element ?? null) !== null && element.offsetParent !== null;

  // Storage may be blocked altogether, as in a frame of another site.
  const stored = (key) => { try { return localStorage.getItem(key); } catch { return null; } };
  const store = (key, text) => { try { localStorage.setItem(key, text); } catch { /* then not */ } };

  // Who the visitor is, where the cookie is blocked: see studio/ui/identity.py.
  const visitorKey = "zonos2-visitor";
  const kept = () => [stored(visitorKey) ?? "", studioSettings.memory()];
  const keep = (text) => { if (text) store(visitorKey, text); return [text]; };

  // Sound that was sent but not yet heard must end with Stop, too.
  const silence = () => document.querySelectorAll("#live audio").forEach((audio) => audio.pause());
  const stop = (...inputs) => { silence(); studioPlayer.leave(); return inputs; };

  document.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      const speak = [find("#speak"), find("#speak-script")].find(isShown);
      if (!speak) return;
      event.preventDefault();
      speak.click();
    } else if (event.key === "Escape") {
      const asking = event.target.closest?.(".entry[data-mode]:not([data-mode=''])");
      if (asking) return setMode(asking, "");
      silence();
      studioPlayer.leave();
      [find("#stop"), find("#stop-script")].find(isShown)?.click();
    }
  });

  // Gradio's lists take Tab for typing: left by it they open again, and break the page when they shrink.
  document.addEventListener("keydown", (event) => {
    if (event.key === "Tab" && event.target.matches?.("[role=combobox]")) event.stopImmediatePropagation();
  }, true);

  // The live player leaves when it has played to its end; a new stream brings it back.
  document.addEventListener("ended", (event) => setPlayed(event, true), true);
  document.addEventListener("loadstart", (event) => setPlayed(event, false), true);
  const setPlayed = (event, isOver) =>
    event.target.closest?.("#live")?.classList.toggle("played", isOver);

  // The waveform of a take follows its player, and a click on it moves the playhead.
  document.addEventListener("timeupdate", (event) => {
    const figure = event.target.closest?.("#take figure");
    if (!figure) return;
    const { currentTime, duration } = event.target;
    figure.style.setProperty("--played", `${(100 * currentTime) / duration}%`);
  }, true);
  const seek = (event) => {
    const waveform = event.target.closest?.("#take .waveform");
    if (!waveform) return;
    const { left, width } = waveform.getBoundingClientRect();
    const audio = waveform.parentElement.querySelector("audio");
    audio.currentTime = (audio.duration * (event.clientX - left)) / width;
  };

  // A list: its buttons open what a row asks, play its sound, or are reported to the server.
  const setMode = (row, mode) => {
    const opener = row.dataset.mode;
    row.dataset.mode = mode;
    // A question that takes something away begins at the button that leaves it.
    const shown = mode === "" ? `.acts [data-mode="${opener}"]` : `.ask[data-mode="${mode}"] :is(input, [data-mode=""])`;
    const next = row.querySelector(shown);
    next?.focus();
    if (next?.matches("input")) next.select();
  };
  const list = (element, trigger) => {
    const report = (act, row, text = "") =>
      trigger(act === "again" ? "submit" : "click", { act, id: row?.dataset.id ?? "", text });
    element.addEventListener("click", (event) => {
      const button = event.target.closest("button");
      const row = button?.closest(".entry");
      if (!button || button.type === "submit") return;
      if (button.dataset.play !== undefined) play(element, button, row);
      else if (button.dataset.do !== undefined) report(button.dataset.do, row);
      else if (row) setMode(row, button.dataset.mode);
    });
    element.addEventListener("submit", (event) => {
      event.preventDefault();
      report(event.target.dataset.do, event.target.closest(".entry"), event.target.elements.text.value);
    });
  };

  // One player for each list. It leaves with the row whose sound it holds.
  const playerOf = (element) => element.closest("[role=tabpanel]").querySelector(".player");
  const play = (element, button, row) => {
    const player = playerOf(element);
    const audio = player.querySelector("audio");
    const isSame = player.dataset.id === row.dataset.id && !player.classList.contains("gone");
    if (isSame && !audio.paused) return audio.pause();
    document.querySelectorAll("audio").forEach((other) => other.pause());
    if (!isSame) {
      player.dataset.id = row.dataset.id;
      player.classList.remove("gone");
      player.querySelector("figcaption").textContent = button.dataset.caption;
      audio.src = button.dataset.play;
      player.hidden = false;
    }
    audio.play().catch(() => {});
  };
  document.addEventListener("error", (event) => {
    const player = event.target.closest?.(".player");
    if (!player || !event.target.src) return;
    player.classList.add("gone");
    player.querySelector("figcaption").textContent = player.dataset.gone;
  }, true);
  const markPlaying = () => document.querySelectorAll(".player:not([hidden])").forEach((player) => {
    const rows = player.closest("[role=tabpanel]").querySelectorAll(".entry[data-id]");
    const row = [...rows].find((each) => each.dataset.id === player.dataset.id);
    const audio = player.querySelector("audio");
    if (!row) {
      audio.pause();
      player.hidden = true;
      return;
    }
    for (const each of rows) {
      const isPlaying = each === row && !audio.paused && !audio.ended;
      if (each.classList.contains("playing") !== isPlaying) each.classList.toggle("playing", isPlaying);
    }
  });
  for (const name of ["play", "pause", "ended"]) {
    document.addEventListener(name, (event) => { if (event.target.closest?.(".player")) markPlaying(); }, true);
  }

  // Whoever used a button of a list by keyboard finds the focus there again when the list is new.
  let place = null;
  document.addEventListener("focusin", (event) => {
    const row = event.target.closest?.("li.entry");
    place = null;
    if (!row) return;
    const { do: act, mode } = (event.target.closest(".ask") ?? event.target).dataset;
    const button = mode ? `.acts [data-mode="${mode}"]` : act ? `.acts [data-do="${act}"]` : ".play";
    const index = [...row.parentElement.children].indexOf(row);
    place = { list: row.closest(".prose").id, id: row.dataset.id, index, button };
  });
  const keepPlace = () => {
    const { activeElement } = document;
    if (place === null || (activeElement !== document.body && isShown(activeElement))) return;
    const rows = [...(document.getElementById(place.list)?.querySelectorAll("li.entry") ?? [])];
    const row = rows.find((each) => each.dataset.id === place.id) ?? rows[Math.min(place.index, rows.length - 1)];
    [row?.querySelector(place.button), row?.querySelector("button")].find(isShown)?.focus({ preventScroll: true });
  };

  // A moment in the words and the time zone of the reader.
  const words = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
  const wordTimes = () => document.querySelectorAll("time[datetime]:not([data-worded])").forEach((time) => {
    time.dataset.worded = "";
    time.textContent = words.format(new Date(time.dateTime));
  });

  // Gradio's audio field takes only files that the browser calls audio. Films, WebM and names without an ending are
  // called something else or nothing; the server asks the sound itself, so whatever is chosen or dropped may come.
  const isOther = (files) => [...files].some((file) => !file.type.startsWith("audio/"));
  const asAudio = (files) => {
    const transfer = new DataTransfer();
    for (const file of files) transfer.items.add(new File([file], file.name, { type: "audio/unknown" }));
    return transfer;
  };
  const recordingField = (event) => event.target.matches?.("#recording input[type=file]") ? event.target : null;
  document.addEventListener("click", (event) => {
    const field = recordingField(event);
    if (field !== null) field.accept = "";  // the dialog would grey them out
  }, true);
  document.addEventListener("change", (event) => {
    const field = recordingField(event);
    if (field !== null && isOther(field.files)) field.files = asAudio(field.files).files;
  }, true);
  document.addEventListener("drop", (event) => {
    const { files } = event.dataTransfer;
    if (!event.target.closest?.("#recording") || !isOther(files)) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    const drop = { bubbles: true, cancelable: true, dataTransfer: asAudio(files) };
    event.target.dispatchEvent(new DragEvent("drop", drop));
  }, true);

  // Speak and Stop change places: whoever pressed one by keyboard keeps the focus there.
  let hadFocus = false;
  document.addEventListener("click", (event) => {
    const pressed = event.target.closest?.("#speak, #stop, #speak-script, #stop-script");
    hadFocus = (pressed ?? null) !== null && pressed === document.activeElement;
    if (event.target.closest?.("#theme-switch")) switchTheme();
    seek(event);
  }, true);
  const keepFocus = () => {
    if (!hadFocus || document.activeElement !== document.body) return;
    const button = ["#speak", "#stop", "#speak-script", "#stop-script"].map(find).find(isShown);
    button?.focus({ preventScroll: true });
  };

  // Announce a change of state once, not every tick of the counter.
  const announced = { status: "ready", "script-status": "ready" };
  const announce = () => {
    for (const id of Object.keys(announced)) {
      const status = find(`#${id} [data-state]`);
      if (status === null) continue;
      const { state } = status.dataset;
      const words = state === "speaking" ? studioWords.said("Speaking") : status.textContent;
      if (state !== announced[id] || (state === "error" && words !== region.textContent)) {
        region.textContent = words;
      }
      announced[id] = state;
    }
  };
  // What is told beside a form or in a row, without the status line: once, too.
  const notes = "#save-note, #blend-note, #bring-note, #average-note, #word-note, .entry > .bad, #script-note, #check-result :is(.verdict, .note)";
  let told = "";
  const tell = () => {
    const now = [...document.querySelectorAll(notes)].map((note) => note.textContent.trim()).join(" ").trim();
    if (now === told) return;
    told = now;
    if (now !== "") region.textContent = now;
  };
  const region = document.createElement("div");
  region.id = "announcer";
  region.setAttribute("role", "status");
  region.setAttribute("aria-live", "polite");

  const themeKey = "studio-theme";
  const isDark = () => document.body.classList.contains("dark");
  const switchTheme = () => {
    document.body.classList.toggle("dark");
    store(themeKey, isDark() ? "dark" : "light");
  };

  const begin = () => {
    document.body.append(region);
    studioWords.begin();
    const chosen = stored(themeKey);
    let isReady = false;
    new MutationObserver(() => {
      announce();
      tell();
      studioPlayer.look();
      studioText.look();
      studioCompare.show();
      keepFocus();
      requestAnimationFrame(keepPlace);
      wordTimes();
      markPlaying();
      const text = find("#text textarea");
      if (isReady || text === null) return;
      isReady = true;
      if (chosen !== null) document.body.classList.toggle("dark", chosen === "dark");
      const note = find("#no-microphone");
      if (note !== null) note.hidden = window.isSecureContext;
    }).observe(document.body, { childList: true, subtree: true, characterData: true });
  };
  window.studio = {
    kept, keep, stop, list, cast: studioText.cast, listens: studioPlayer.listens, remember: studioSettings.remember,
    presets: studioSettings.presets, player: studioPlayer, compare: studioCompare,
  };
  if (document.body === null) document.addEventListener("DOMContentLoaded", begin);
  else begin();
})();
