// The page in the visitor's language. The server speaks English, the one source of every word; what a catalogue
// of assets/i18n knows is put in its place as it appears, and what people wrote themselves is left alone.
const studioWords = (() => {
  const KEY = "studio-language";
  const LANGUAGES = ["en", "zh", "ja", "de", "fr", "es", "pt", "it", "ko"];
  const OTHERS = "script, style, textarea, bdi, code, pre, .spoken, .cast select, #interface-language, [contenteditable]";
  const ATTRIBUTES = ["aria-label", "title", "placeholder", "data-words", "data-gone"];
  const stored = () => { try { return localStorage.getItem(KEY); } catch { return null; } };
  const store = (language) => { try { localStorage.setItem(KEY, language); } catch { /* then not */ } };

  let exact = new Map();
  let patterns = [];
  const sources = new WeakMap();  // a node: what it said before, and what stands there now

  const said = (words) => {
    const text = words.trim();
    if (text === "") return words;
    let found = exact.get(text);
    if (found === undefined) {
      for (const { pattern, target } of patterns) {
        const match = pattern.exec(text);
        if (match === null) continue;
        let part = 0;
        found = target.replace(/\{\}/g, () => match[++part]);
        break;
      }
    }
    return found === undefined ? words : words.replace(text, () => found);
  };
  // A button of a row is called after it: "Delete: Anna".
  const named = (words) => {
    const whole = said(words);
    const colon = words.indexOf(": ");
    return whole !== words || colon < 0 ? whole : said(words.slice(0, colon)) + words.slice(colon);
  };

  const reword = (node) => {
    if (node.parentElement?.closest(OTHERS)) return;
    const known = sources.get(node);
    const source = known !== undefined && known.shown === node.data ? known.source : node.data;
    const shown = said(source);
    sources.set(node, { source, shown });
    if (node.data !== shown) node.data = shown;
  };
  const rename = (element) => {
    if (element.closest("textarea, #interface-language") && !element.hasAttribute("placeholder")) return;
    for (const name of ATTRIBUTES) {
      if (!element.hasAttribute(name)) continue;
      const known = sources.get(element)?.[name];
      const now = element.getAttribute(name);
      const source = known !== undefined && known.shown === now ? known.source : now;
      const shown = named(source);
      sources.set(element, { ...sources.get(element), [name]: { source, shown } });
      if (now !== shown) element.setAttribute(name, shown);
    }
  };
  const walk = (root) => {
    if (root.nodeType === Node.TEXT_NODE) return reword(root);
    if (root.nodeType !== Node.ELEMENT_NODE) return;
    rename(root);
    const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT | NodeFilter.SHOW_ELEMENT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      if (node.nodeType === Node.TEXT_NODE) reword(node);
      else rename(node);
    }
  };
  const watch = new MutationObserver((records) => {
    for (const { type, target, addedNodes } of records) {
      if (type === "characterData") reword(target);
      else if (type === "attributes") rename(target);
      else addedNodes.forEach(walk);
    }
    showChoice();
  });

  const escaped = (text) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  const speak = async (language) => {
    let words = {};
    if (language !== "en") {
      try {
        words = await (await fetch(`page/words/${language}`)).json();
      } catch {
        language = "en";
      }
    }
    exact = new Map();
    patterns = [];
    for (const [source, target] of Object.entries(words)) {
      if (!source.includes("{}")) exact.set(source, target);
      else patterns.push({ pattern: new RegExp(`^${source.split("{}").map(escaped).join("(.+?)")}$`), target });
    }
    document.documentElement.lang = language;
    walk(document.body);
    watch.disconnect();
    watch.observe(document.body, { childList: true, subtree: true, characterData: true, attributes: true, attributeFilter: ATTRIBUTES });
    showChoice();
  };
  const showChoice = () => {
    const choice = document.querySelector("#interface-language");
    if (choice && choice.value !== document.documentElement.lang) choice.value = document.documentElement.lang;
  };
  document.addEventListener("change", (event) => {
    if (event.target.id !== "interface-language") return;
    store(event.target.value);
    speak(event.target.value);
  });
  const begin = () => {
    const wished = [stored(), ...navigator.languages.map((tag) => tag.slice(0, 2))];
    speak(wished.find((language) => LANGUAGES.includes(language)) ?? "en");
  };
  return { begin, said: (words) => said(words) };
})();
