"use strict";
// The theme, before anything is drawn; then, with the document: what every page has.
const root = document.documentElement;
root.dataset.scripts = "";
const kept = {
  get(key) { try { return localStorage.getItem(key); } catch { return null; } },
  set(key, value) { try { localStorage.setItem(key, value); } catch { /* some file:// set-ups keep nothing */ } },
};
if (["dark", "light"].includes(kept.get("traceanalyzer-theme"))) root.dataset.theme = kept.get("traceanalyzer-theme");

const ta = { data: null, strips: [], go: () => false };
window.ta = ta;
const onTheme = [];

function isDark() {
  return root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

function color(name) {
  return getComputedStyle(root).getPropertyValue(name).trim();
}

function startTheme() {
  const button = document.getElementById("theme");
  const tell = () => {
    button.textContent = isDark() ? "Light" : "Dark";
    button.setAttribute("aria-label", `Switch to ${isDark() ? "light" : "dark"} colours`);
    onTheme.forEach((draw) => draw());
  };
  button.hidden = false;
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    kept.set("traceanalyzer-theme", root.dataset.theme);
    tell();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", tell);
  startPrinting();
  tell();
}

// Paper is light, also what is drawn on a canvas.
function startPrinting() {
  let theme;
  const draw = () => onTheme.forEach((drawn) => drawn());
  addEventListener("beforeprint", () => {
    theme = root.dataset.theme;
    root.dataset.theme = "light";
    draw();
  });
  addEventListener("afterprint", () => {
    if (theme) root.dataset.theme = theme; else delete root.dataset.theme;
    draw();
  });
}

function startCopying() {
  for (const button of document.querySelectorAll(".copy")) {
    const code = button.parentElement.querySelector("code");
    button.hidden = false;
    copies(button, () => code.textContent, () => {
      const folded = code.closest("details");
      if (folded) folded.open = true;
      getSelection().selectAllChildren(code);
    });
  }
  for (const head of document.querySelectorAll("section[id]>h2,article[id] h3")) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "anchor";
    button.textContent = "#";
    button.title = "Copy a link to this place";
    button.setAttribute("aria-label", `Copy a link to ${head.textContent}`);
    const address = () => `${location.href.split("#")[0]}#${head.closest("[id]:not(h2,h3)").id}`;
    copies(button, address, () => { location.href = address(); });
    head.after(button);
  }
}

// A button that copies; where the browser forbids it, it shows what to copy.
function copies(button, text, instead) {
  const words = button.textContent;
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text());
      button.textContent = "Copied";
    } catch {
      instead();
      button.textContent = "Selected";
    }
    setTimeout(() => { button.textContent = words; }, 1500);
  });
}

document.addEventListener("DOMContentLoaded", () => {
  ta.data = JSON.parse(document.getElementById("data").textContent);
  startTheme();
  startCopying();
  startTables();
  startStrips();
});
