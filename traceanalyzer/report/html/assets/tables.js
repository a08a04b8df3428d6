// Tables: a click on a head sorts, a word in the field above filters.
function startTables() {
  for (const table of document.querySelectorAll("table.data")) {
    table.querySelectorAll("thead th").forEach((head, at) => startSorting(table, head, at));
  }
  for (const tools of document.querySelectorAll(".tools[data-for]")) {
    tools.hidden = false;
    const table = document.getElementById(tools.dataset.for);
    startFilter(table, tools.querySelector("input"), tools.querySelector("[role=status]"));
  }
}

function startSorting(table, head, at) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = head.textContent;
  head.replaceChildren(button);
  const numbers = head.classList.contains("num");
  button.addEventListener("click", () => {
    const before = head.getAttribute("aria-sort");
    const down = before ? before === "ascending" : numbers;
    for (const other of table.querySelectorAll("[aria-sort]")) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const rows = [...table.tBodies[0].rows];
    const key = (row) => (numbers ? Number(row.cells[at].dataset.v) : row.cells[at].textContent);
    rows.sort((a, b) => (numbers ? key(a) - key(b) : key(a).localeCompare(key(b))));
    if (down) rows.reverse();
    table.tBodies[0].append(...rows);
  });
}

function startFilter(table, field, status) {
  const rows = [...table.tBodies[0].rows].map((row) => {
    const whole = [...row.cells].map((cell) => `${cell.textContent} ${cell.title}`).join(" ");
    return [row, whole.toLowerCase()];
  });
  field.addEventListener("input", () => {
    const wanted = field.value.trim().toLowerCase();
    let shown = 0;
    for (const [row, text] of rows) {
      row.hidden = !text.includes(wanted);
      shown += row.hidden ? 0 : 1;
    }
    const all = `${rows.length} row${rows.length === 1 ? "" : "s"}`;
    status.textContent = wanted ? `${shown} of ${all}` : all;
  });
}
