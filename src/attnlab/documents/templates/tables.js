"use strict";

// Rows of a table by a column: pressed again, the other way round.
const sortable = (table) => {
  const heads = [...table.tHead.rows[0].cells];
  const key = (row, place) => {
    const cell = row.cells[place];
    const value = cell.querySelector("data");
    const text = cell.textContent.trim();
    return value ? Number(value.value) : text === "" || text === "–" ? null : text;
  };
  const compare = (one, other) =>
    typeof one === "number" && typeof other === "number" ? one - other : String(one).localeCompare(String(other), "en", { numeric: true });
  heads.forEach((head, place) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      [...table.tBodies].forEach((body) => {
        const rows = [...body.rows].filter((row) => !row.classList.contains("group"));
        const known = rows.filter((row) => key(row, place) !== null);
        const unknown = rows.filter((row) => key(row, place) === null);
        known.sort((one, other) => (down ? -1 : 1) * compare(key(one, place), key(other, place)));
        body.append(...known, ...unknown);
      });
    });
  });
};
document.querySelectorAll("table.sortable").forEach(sortable);
