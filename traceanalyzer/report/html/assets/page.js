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
    button.hidden = false;
    button.addEventListener("click", async () => {
      const text = button.parentElement.querySelector("code").textContent;
      try {
        await navigator.clipboard.writeText(text);
        button.textContent = "Copied";
      } catch {
        getSelection().selectAllChildren(button.parentElement.querySelector("code"));
        button.textContent = "Selected";
      }
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    });
  }
}

document.addEventListener("DOMContentLoaded", () => {
  ta.data = JSON.parse(document.getElementById("data").textContent);
  startTheme();
  startCopying();
  startTables();
  startStrips();
});
