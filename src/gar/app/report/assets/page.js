"use strict";
(() => {
  const root = document.documentElement;
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const announce = (text) => { document.getElementById("status").textContent = text; };

  // Tables: a heading sorts its column, the better values first; missing values stay at the end.
  const byValue = (column, sign) => (one, other) => {
    const [a, b] = [one, other].map((row) => row.children[column].dataset.value);
    if (a === "" || b === "") return (a === "") - (b === "");
    const numbers = Number(a) - Number(b);
    return sign * (Number.isNaN(numbers) ? a.localeCompare(b) : numbers);
  };
  const sort = (heading, button) => {
    const table = heading.closest("table"), body = table.tBodies[0];
    const opposite = { ascending: "descending", descending: "ascending" };
    const order = opposite[heading.getAttribute("aria-sort")] || button.dataset.first;
    all("thead th", table).forEach((other) => other.setAttribute("aria-sort", other === heading ? order : "none"));
    body.append(...[...body.rows].sort(byValue(heading.cellIndex, order === "ascending" ? 1 : -1)));
    announce(`Sorted by ${button.textContent}, ${order}`);
  };
  all("table.sortable thead button").forEach((button) => {
    button.addEventListener("click", () => sort(button.closest("th"), button));
  });

  // Legends: a method is shown or hidden in all figures of its problem.
  const toggle = (problem, key, shown) => {
    all(`[data-series="${key}"]`, problem).forEach((mark) => mark.classList.toggle("off", !shown));
    all(`[data-toggle="${key}"]`, problem).forEach((button) => button.setAttribute("aria-pressed", String(shown)));
  };
  all("[data-toggle]").forEach((button) => {
    button.addEventListener("click", () => {
      toggle(button.closest(".problem"), button.dataset.toggle, button.getAttribute("aria-pressed") !== "true");
    });
  });

  // Long tables: all rows on request.
  all("[data-all]").forEach((button) => {
    button.addEventListener("click", () => {
      document.getElementById(button.dataset.all).classList.remove("short");
      button.parentElement.remove();
      announce("All rows are shown");
    });
  });

  // Views of one figure: values or ranks.
  all("[data-view]").forEach((button) => {
    button.addEventListener("click", () => {
      const figure = button.closest("figure");
      all("[data-view]", figure).forEach((other) => other.setAttribute("aria-pressed", String(other === button)));
      all(".view", figure).forEach((view, index) => { view.hidden = String(index) !== button.dataset.view; });
    });
  });

  // Theme: that of the system until the reader chooses. Storage may be forbidden for a local file.
  const theme = document.getElementById("theme"), dark = window.matchMedia("(prefers-color-scheme: dark)");
  const stored = (value) => {
    try {
      if (value) localStorage.setItem("gar-theme", value);
      return localStorage.getItem("gar-theme");
    } catch { return null; }
  };
  const isDark = () => (root.dataset.theme || (dark.matches ? "dark" : "light")) === "dark";
  const show = () => theme.setAttribute("aria-pressed", String(isDark()));
  const known = stored();
  if (known === "dark" || known === "light") root.dataset.theme = known;
  theme.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    stored(root.dataset.theme);
    show();
  });
  dark.addEventListener("change", show);
  show();

  // The page contains the results.
  document.getElementById("download").addEventListener("click", () => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([document.getElementById("results").textContent], { type: "application/json" }));
    link.download = "results.json";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  });
})();
