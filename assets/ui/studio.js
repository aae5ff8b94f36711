// Keys, the live region, the theme switch and the live player: what Gradio has no setting for.
(() => {
  const find = (selector) => document.querySelector(selector);
  const isShown = (element) => element !== null && element.offsetParent !== null;

  // Sound that was sent but not yet heard must end with Stop, too.
  const silence = () => document.querySelectorAll("#live audio").forEach((audio) => audio.pause());
  window.studio = { stop: (...inputs) => { silence(); return inputs; } };

  document.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      const speak = find("#speak");
      if (!isShown(speak)) return;
      event.preventDefault();
      speak.click();
    } else if (event.key === "Escape") {
      silence();
      if (isShown(find("#stop"))) find("#stop").click();
    }
  });

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
    hadFocus = event.target.closest?.("#speak, #stop") === document.activeElement;
    if (event.target.closest?.("#theme-switch")) switchTheme();
    seek(event);
  }, true);
  const keepFocus = () => {
    if (!hadFocus || document.activeElement !== document.body) return;
    const button = [find("#speak"), find("#stop")].find(isShown);
    button?.focus({ preventScroll: true });
  };

  // Announce a change of state once, not every tick of the counter.
  let announced = "ready";
  const announce = () => {
    const status = find("#status [data-state]");
    if (status === null) return;
    const { state } = status.dataset;
    const words = state === "speaking" ? "Speaking" : status.textContent;
    if (state !== announced || (state === "error" && words !== region.textContent)) {
      region.textContent = words;
    }
    announced = state;
  };
  const region = document.createElement("div");
  region.id = "announcer";
  region.setAttribute("role", "status");
  region.setAttribute("aria-live", "polite");

  const themeKey = "studio-theme";
  const isDark = () => document.body.classList.contains("dark");
  const switchTheme = () => {
    document.body.classList.toggle("dark");
    localStorage.setItem(themeKey, isDark() ? "dark" : "light");
  };

  const begin = () => {
    document.body.append(region);
    const chosen = localStorage.getItem(themeKey);
    let isReady = false;
    new MutationObserver(() => {
      announce();
      keepFocus();
      const text = find("#text textarea");
      if (isReady || text === null) return;
      isReady = true;
      if (chosen !== null) document.body.classList.toggle("dark", chosen === "dark");
      const note = find("#no-microphone");
      if (note !== null) note.hidden = window.isSecureContext;
    }).observe(document.body, { childList: true, subtree: true, characterData: true });
  };
  if (document.body === null) document.addEventListener("DOMContentLoaded", begin);
  else begin();
})();
