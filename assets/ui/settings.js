// What the browser remembers: the settings as they are, presets under a name, and no word of any text.
const studioSettings = (() => {
  const stored = (key) => { try { return localStorage.getItem(key); } catch { return null; } };
  const store = (key, text) => { try { localStorage.setItem(key, text); } catch { /* then not */ } };
  const KEY = "studio-settings-1", PRESETS = "studio-presets-1";
  const MAX_PRESETS = 30;
  let now = "";

  const known = () => JSON.parse(document.querySelector("#memory")?.dataset.known ?? "null");
  const memory = () => stored(KEY) ?? "";
  const remember = (...values) => {
    const told = known();
    if (told === null) return [];
    now = JSON.stringify(Object.fromEntries(told.names.map((name, n) => [name, values[n]])));
    store(KEY, now);
    const fields = told.names.length - told.fields.length;
    told.fields.forEach((id, n) =>
      document.getElementById(id)?.classList.toggle("changed-setting", values[fields + n] !== told.defaults[n]));
    setTimeout(follow, 50);
    return [];
  };

  const read = () => { try { return JSON.parse(stored(PRESETS)) ?? {}; } catch { return {}; } };
  const presets = (element, trigger) => {
    const list = element.querySelector(".chips");
    const show = () => {
      list.replaceChildren(...Object.keys(read()).map((name) => {
        const row = document.createElement("li");
        for (const act of ["use", "forget"]) {
          const button = document.createElement("button");
          Object.assign(button, { type: "button", textContent: act === "use" ? name : "×" });
          button.dataset.preset = act;
          if (act === "forget") button.setAttribute("aria-label", `${list.dataset.forget}: ${name}`);
          else button.dir = "auto";
          row.append(button);
        }
        row.dataset.name = name;
        return row;
      }));
    };
    element.addEventListener("click", (event) => {
      const button = event.target.closest("[data-preset]");
      if (!button) return;
      const all = read(), { name } = button.closest("li").dataset;
      if (button.dataset.preset === "use") return trigger("click", { text: JSON.stringify(all[name]) });
      delete all[name];
      store(PRESETS, JSON.stringify(all));
      show();
    });
    element.addEventListener("submit", (event) => {
      event.preventDefault();
      const field = event.target.elements.name;
      const all = read();
      if (now === "" && memory() !== "") now = memory();
      if (now === "" || Object.keys(all).length >= MAX_PRESETS) return;
      const { voice, language, ...settings } = JSON.parse(now);
      store(PRESETS, JSON.stringify({ ...all, [field.value.trim()]: settings }));
      field.value = "";
      show();
    });
    show();
  };
  // The pad moves two sliders, and follows them.
  const AXES = ["valence", "arousal"];
  const fields = () => AXES.map((axis) => document.querySelector(`#setting-${axis} input[type=range]`));
  const follow = () => {
    const dot = document.querySelector("#pad i");
    const [across, up] = fields().map((field) => field && (field.value - field.min) / (field.max - field.min));
    if (!dot || across === null || up === null) return;
    dot.style.left = `${100 * across}%`;
    dot.style.bottom = `${100 * up}%`;
  };
  const drag = (pad, event) => {
    const box = pad.getBoundingClientRect();
    const shares = [(event.clientX - box.left) / box.width, 1 - (event.clientY - box.top) / box.height];
    fields().forEach((field, axis) => {
      const share = Math.min(1, Math.max(0, shares[axis]));
      const step = Number(field.step) || 0.01;
      const value = Number(field.min) + share * (field.max - field.min);
      field.value = Math.round(value / step) * step;
      for (const name of ["input", "change", "pointerup"]) field.dispatchEvent(new Event(name, { bubbles: true }));
    });
    follow();
  };
  document.addEventListener("pointerdown", (event) => {
    const pad = event.target.closest?.("#pad");
    if (!pad) return;
    pad.setPointerCapture(event.pointerId);
    pad.onpointermove = (moved) => drag(pad, moved);
    pad.onpointerup = pad.onpointercancel = () => { pad.onpointermove = null; };
    drag(pad, event);
  });
  document.addEventListener("input", (event) => { if (event.target.closest?.("#setting-valence, #setting-arousal")) requestAnimationFrame(follow); });
  return { memory, remember, presets, follow };
})();
