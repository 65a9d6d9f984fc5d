// Tables that sort by any column; the column is in the address.
(() => {
  const table = document.querySelector("table.sortable");
  if (!table) return;
  const body = table.tBodies[0];
  const rows = [...body.rows];
  const heads = [...table.tHead.rows[0].cells];
  const apply = () => {
    const [, minus, text] = location.hash.match(/^#sort=(-?)(\d+)$/) || [];
    const column = text === undefined ? -1 : Number(text);
    heads.forEach((head, place) => head.setAttribute("aria-sort", place !== column ? "none" : minus ? "descending" : "ascending"));
    const value = (row) => row.cells[column].dataset.value;
    const number = rows.every((row) => column < 0 || value(row) === "" || !Number.isNaN(Number(value(row))));
    const compare = (one, other) => {
      const [left, right] = [value(one), value(other)];
      if (!left || !right) return !left - !right;
      const order = number ? Number(left) - Number(right) : left.localeCompare(right, "en", { numeric: true });
      return minus ? -order : order;
    };
    body.replaceChildren(...(column < 0 ? rows : [...rows].sort(compare)));
  };
  heads.forEach((head, place) => head.querySelector("button").addEventListener("click", () => {
    location.hash = location.hash === `#sort=${place}` ? `sort=-${place}` : `sort=${place}`;
  }));
  window.addEventListener("hashchange", apply);
  apply();
})();
