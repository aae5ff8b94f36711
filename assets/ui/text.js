// The editor's neighbours: how long the text is, its changed stretches, code to copy, and the list of keys.
const studioText = (() => {
  const find = (selector) => document.querySelector(selector);
  // What nano and the released model make of a second at their usual pace, in bytes of UTF-8.
  const BYTES_PER_S = 14.5;
  const number = (value) => value.toLocaleString(document.documentElement.lang || undefined);

  let counted = null;
  const count = () => {
    const [text, counter] = [find("#text textarea"), find("#counter")];
    if (!text || !counter || (text.value === counted && counter.dataset.lang === document.documentElement.lang)) return;
    counted = text.value;
    counter.dataset.lang = document.documentElement.lang;
    const chars = [...text.value].length;
    const limit = Number(counter.dataset.limit);
    const seconds = new TextEncoder().encode(text.value).length / BYTES_PER_S;
    const length = seconds < 90 ? `${Math.round(seconds)} s` : `${Math.round(seconds / 60)} min`;
    counter.textContent = `${number(chars)} / ${number(limit)} · ≈ ${length}`;
    counter.classList.toggle("over", chars > limit);
  };
  document.addEventListener("input", (event) => { if (event.target.closest?.("#text")) count(); });

  const fill = (selector, value) => {
    const field = find(selector);
    if (!field) return null;
    field.value = value;
    field.dispatchEvent(new Event("input", { bubbles: true }));
    return field;
  };
  const teach = ({ written, said }) => {
    const box = find("#words-box > button");
    if (box && !find("#word-written :is(input, textarea)")?.offsetParent) box.click();
    setTimeout(() => {
      fill("#word-written :is(input, textarea)", written.trim());
      const field = fill("#word-said :is(input, textarea)", said.trim());
      field?.focus();
      field?.select();
    }, 120);
  };

  const copy = async (button) => {
    const code = button.closest(".example").querySelector("code").textContent;
    try {
      await navigator.clipboard.writeText(code);
    } catch {  // no https: the old way
      const area = Object.assign(document.createElement("textarea"), { value: code });
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
      button.focus();
    }
    button.classList.add("copied");
    setTimeout(() => button.classList.remove("copied"), 1500);
  };
  // Only the browser knows under which address the studio is seen.
  const address = () => new URL(".", location.href).href.replace(/\/$/, "");
  const place = () => document.querySelectorAll("#code code:not([data-placed])").forEach((code) => {
    code.dataset.placed = "";
    code.textContent = code.textContent.replaceAll("STUDIO_ADDRESS", address());
  });

  document.addEventListener("click", (event) => {
    const button = event.target.closest?.(".changed, [data-copy], #keys-switch");
    if (!button) return;
    if (button.matches(".changed")) teach(button.dataset);
    else if (button.matches("[data-copy]")) copy(button);
    else find("#keys")?.showModal();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "?" || event.target.closest?.("input, textarea, select, [contenteditable]")) return;
    if (!find("#keys")?.open) find("#keys")?.showModal();
  });
  // Which voice speaks for a name of the script.
  const cast = (element, trigger) => element.addEventListener("change", (event) =>
    trigger("input", { id: event.target.dataset.name, text: event.target.value }));
  // What people write has its own direction.
  const direct = () => document.querySelectorAll(".card :is(textarea, input)[dir=ltr]").forEach((field) => { field.dir = "auto"; });
  return { cast, look: () => { count(); place(); direct(); } };
})();
