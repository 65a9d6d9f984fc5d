// The samples of a report: filters, order, cards and a table, all of it in the address. Texts are set as text.
(() => {
  const gallery = document.getElementById("gallery");
  if (!gallery) return;
  let data = JSON.parse(document.getElementById("gallery-data").textContent);
  const FIELDS = 11;
  const [HREF, RUN, SOURCE, DIALECT, LABELS, QUESTION, ANSWER, GOLD, ID, PICTURE, PROBLEM] = Array(FIELDS).keys();
  // Further fields are numbers, which the data name.
  const NUMBERS = Object.fromEntries(data.columns.map(([name], place) => [name, FIELDS + place]));
  const AT_ONCE = 60;
  const byId = (name) => document.getElementById(name);
  const LISTS = { run: [RUN, "runs"], source: [SOURCE, "sources"], dialect: [DIALECT, "dialects"] };
  const outcomeOf = (item) => item[LABELS].find((label) => label < data.outcomes);
  const dash = (value) => value === null || value === undefined || value === "";
  const amount = (field, digits) => [(item) => item[field], (item) => dash(item[field]) ? "–" : item[field].toLocaleString("en", { maximumFractionDigits: digits })];
  // Name -> heading, what is sorted by, what is written, whether it is a number.
  const COLUMNS = {
    sample: ["sample", (item) => item.place, (item) => item[ID], false],
    run: ["run", (item) => item[RUN], (item) => data.runs[item[RUN]], false],
    source: ["benchmark", (item) => item[SOURCE], (item) => data.sources[item[SOURCE]] || "–", false],
    question: ["question", (item) => item[QUESTION].toLowerCase(), (item) => item[QUESTION], false],
    answer: ["answer", (item) => item[ANSWER] === null ? null : item[ANSWER].toLowerCase(), (item) => item[ANSWER] ?? "no answer", false],
    gold: ["gold", (item) => item[GOLD] === null ? null : item[GOLD].toLowerCase(), (item) => item[GOLD] ?? "–", false],
    outcome: ["outcome", outcomeOf, (item) => data.labels[outcomeOf(item)], false],
    ...Object.fromEntries(data.columns.map(([name, head, digits]) => [name, [head, ...amount(NUMBERS[name], digits), true]])),
    labels: ["labels", (item) => item[LABELS].length, (item) => item[LABELS].filter((label) => label >= data.outcomes).map((label) => data.labels[label]).join(", "), false],
  };
  const pressed = new Set();
  let sort = "sample";
  let down = false;
  // A run that grows is followed as a table: its data hold no pictures.
  const usual = () => data.version ? "table" : "cards";
  let view = usual();

  const add = (parent, tag, text, kind) => {
    const element = parent.appendChild(document.createElement(tag));
    if (text !== undefined) element.textContent = text;
    if (kind) element.className = kind;
    return element;
  };
  const button = (parent, text, act) => {
    const made = add(parent, "button", text);
    made.type = "button";
    made.addEventListener("click", act);
    return made;
  };

  // The offers: labels that some sample has, and fields that have several values.
  const offer = () => {
    data.items.forEach((item, place) => { item.place = place; });
    const kept = Object.fromEntries(Object.keys(LISTS).map((name) => [name, byId(name).value]));
    for (const group of ["outcomes", "labels"]) byId(group).replaceChildren();
    data.labels.forEach((name, label) => {
      const count = data.items.filter((item) => item[LABELS].includes(label)).length;
      if (!count) return;
      const isOutcome = label < data.outcomes;
      const made = button(byId(isOutcome ? "outcomes" : "labels"), undefined, () => {
        if (!pressed.delete(name)) pressed.add(name);
        update(true);
      });
      made.dataset.label = name;
      if (isOutcome) add(made, "i", "", `dot ${data.tones[label]}`);
      add(made, "span", name);
      add(made, "span", count.toLocaleString("en"), "dim");
    });
    for (const [name, [, values]] of Object.entries(LISTS)) {
      const select = byId(name);
      select.replaceChildren();
      add(select, "option", "all").value = "";
      for (const value of data[values]) add(select, "option", value || "–").value = value || "–";
      select.closest("label").hidden = data[values].length < 2;
      select.value = kept[name];
    }
  };

  // What is asked for: one of the pressed outcomes, all of the other pressed labels, each chosen field, the text.
  const searchText = (item) => item.searchText ??= [item[QUESTION], item[ANSWER], item[GOLD], item[ID]].join("\n").toLowerCase();
  const chosen = () => {
    const wanted = data.labels.map((name, label) => pressed.has(name) ? label : -1).filter((label) => label >= 0);
    const outcomes = wanted.filter((label) => label < data.outcomes);
    const labels = wanted.filter((label) => label >= data.outcomes);
    const picked = Object.entries(LISTS).map(([name, [field, values]]) => [byId(name).value, field, values]).filter(([value]) => value);
    const text = byId("find").value.trim().toLowerCase();
    return data.items.filter((item) =>
      (!outcomes.length || outcomes.some((label) => item[LABELS].includes(label))) &&
      labels.every((label) => item[LABELS].includes(label)) &&
      picked.every(([value, field, values]) => (data[values][item[field]] || "–") === value) &&
      (!text || searchText(item).includes(text)));
  };
  const sorted = (items) => {
    const by = COLUMNS[sort][1];
    const compare = (one, other) => {
      const [left, right] = [by(one), by(other)];
      if (dash(left) || dash(right)) return dash(left) - dash(right);  // what is not known stands last
      const order = typeof left === "string" ? left.localeCompare(right, "en", { numeric: true }) : left - right;
      return down ? -order : order;
    };
    return items.sort((one, other) => compare(one, other) || one.place - other.place);
  };

  const verdictOf = (element, item) => {
    const name = data.labels[outcomeOf(item)];
    element.textContent = name;
    element.classList.add({ right: "right", wrong: "wrong", "no answer": "wrong" }[name] || "other");
  };
  const card = (item) => {
    const made = byId("card-form").content.firstElementChild.cloneNode(true);
    const link = made.firstElementChild;
    if (item[HREF]) link.href = item[HREF];
    if (item[PICTURE]) {
      const image = document.createElement("img");
      image.dataset.picture = item[PICTURE];
      image.alt = "";
      image.decoding = "async";
      link.prepend(image);
    } else {
      const missing = document.createElement("span");
      missing.className = "missing";
      missing.textContent = item[PROBLEM] || (item[HREF] ? "no picture" : "failed");
      link.prepend(missing);
    }
    link.querySelector(".question").textContent = item[QUESTION];
    const answer = link.querySelector(".answer");
    if (item[ANSWER] !== null) answer.textContent = item[ANSWER];
    else add(answer, "i", "no answer");
    if (item[GOLD] !== null && data.labels[outcomeOf(item)] !== "right") add(answer, "span", `  gold: ${item[GOLD]}`, "gold");
    verdictOf(link.querySelector(".verdict"), item);
    const meta = link.querySelector(".meta");
    for (const label of item[LABELS]) if (label >= data.outcomes) add(meta, "span", data.labels[label], "tag");
    const turns = item[NUMBERS.turns];
    if (turns) add(meta, "span", turns === 1 ? "1 turn" : `${turns} turns`);
    if (data.runs.length > 1) add(meta, "b", data.runs[item[RUN]]);
    add(meta, "span", item[ID], "dim");
    return made;
  };
  const columns = () => Object.keys(COLUMNS).filter((name) => {
    if (name in LISTS) return data[LISTS[name][1]].length > 1;
    const field = name === "gold" ? GOLD : NUMBERS[name];
    return field === undefined || data.items.some((item) => !dash(item[field]));
  });
  const line = (item) => {
    const row = document.createElement("tr");
    for (const name of columns()) {
      const [, , text, number] = COLUMNS[name];
      const cell = add(row, name === "sample" ? "th" : "td", undefined, number ? "" : "words");
      if (name === "sample") {
        cell.scope = "row";
        const link = add(cell, item[HREF] ? "a" : "span", text(item));
        if (item[HREF]) link.href = item[HREF];
      } else if (name === "outcome") verdictOf(add(cell, "span", undefined, "verdict"), item);
      else cell.textContent = text(item);
    }
    return row;
  };
  const head = () => {
    const row = byId("samples").tHead.rows[0];
    row.replaceChildren();
    for (const name of columns()) {
      const cell = add(row, "th", undefined, COLUMNS[name][3] ? "" : "words");
      cell.scope = "col";
      cell.setAttribute("aria-sort", name !== sort ? "none" : down ? "descending" : "ascending");
      button(cell, COLUMNS[name][0], () => {
        down = name === sort ? !down : COLUMNS[name][3];  // of numbers the largest first
        sort = name;
        update(true);
        byId("samples").tHead.querySelector(`th:nth-child(${columns().indexOf(name) + 1}) button`).focus();
      });
    }
    byId("order").replaceChildren();
    for (const name of columns()) add(byId("order"), "option", COLUMNS[name][0]).value = name;
    byId("order").value = sort;
    byId("turned").textContent = down ? "↓ descending" : "↑ ascending";
  };

  let found = [];
  let shown = 0;
  const more = byId("more");
  const places = { cards: byId("cards"), table: byId("samples").tBodies[0] };
  const grow = () => {
    const next = document.createDocumentFragment();
    for (const item of found.slice(shown, shown + AT_ONCE)) next.append(view === "cards" ? card(item) : line(item));
    shown = Math.min(found.length, shown + AT_ONCE);
    saccade.fill(next);
    places[view].append(next);
    more.hidden = shown >= found.length;
  };

  // The address holds what is asked for, so it can be sent on, and the way back leads through it.
  const asked = () => {
    const query = new URLSearchParams();
    for (const button of document.querySelectorAll(".chipset [data-label]")) {
      if (pressed.has(button.dataset.label)) query.append("is", button.dataset.label);
    }
    for (const name of Object.keys(LISTS)) if (byId(name).value) query.set(name, byId(name).value);
    if (byId("find").value.trim()) query.set("text", byId("find").value.trim());
    if (sort !== "sample" || down) query.set("sort", (down ? "-" : "") + sort);
    if (view !== usual()) query.set("view", view);
    return query.size ? `#gallery?${query}` : "";
  };
  const read = () => {
    const [anchor, text] = saccade.address();
    if (anchor && anchor !== "gallery") return;
    const query = new URLSearchParams(text);
    pressed.clear();
    for (const name of query.getAll("is")) pressed.add(name);
    for (const name of Object.keys(LISTS)) {
      byId(name).value = query.get(name) ?? "";
      if (byId(name).selectedIndex < 0) byId(name).value = "";
    }
    byId("find").value = query.get("text") ?? "";
    const order = query.get("sort") ?? "sample";
    down = order.startsWith("-");
    sort = order.replace(/^-/, "") in COLUMNS ? order.replace(/^-/, "") : "sample";
    view = query.get("view") ?? usual();
    if (!(view in places)) view = usual();
  };
  // `step` is true where the way back should lead to what was asked before, false for typing, none for no change.
  const update = (step) => {
    found = sorted(chosen());
    shown = 0;
    head();
    for (const place of Object.values(places)) place.replaceChildren();
    byId("cards").hidden = view !== "cards";
    byId("samples-room").hidden = view !== "table";
    for (const made of document.querySelectorAll(".chipset [data-label]")) {
      made.setAttribute("aria-pressed", String(pressed.has(made.dataset.label)));
    }
    for (const made of document.querySelectorAll("#views button")) {
      made.setAttribute("aria-pressed", String(made.dataset.view === view));
    }
    const all = data.items.length.toLocaleString("en");
    byId("found").textContent = `${found.length.toLocaleString("en")} of ${all} episodes`;
    grow();
    const home = asked();
    if (step !== undefined && home !== location.hash) {
      history[step ? "pushState" : "replaceState"](null, "", home || "#");
    }
    saccade.remember(found.map((item) => item[HREF]).filter(Boolean), home || "#gallery");
  };

  for (const name of Object.keys(LISTS)) byId(name).addEventListener("change", () => update(true));
  byId("order").addEventListener("change", () => { sort = byId("order").value; down = COLUMNS[sort][3]; update(true); });
  byId("turned").addEventListener("click", () => { down = !down; update(true); });
  for (const made of document.querySelectorAll("#views button")) {
    made.addEventListener("click", () => { view = made.dataset.view; update(true); });
  }
  more.addEventListener("click", grow);
  new IntersectionObserver((seen) => { if (seen.some((one) => one.isIntersecting)) grow(); }, { rootMargin: "900px" }).observe(more);
  byId("find").addEventListener("input", () => update(false));
  byId("filters").addEventListener("submit", (event) => event.preventDefault());
  byId("filters").addEventListener("reset", () => {
    pressed.clear();
    [sort, down] = ["sample", false];
    setTimeout(() => update(true));
  });
  // The way back within the list; to and from an episode nothing of the list changes.
  window.addEventListener("hashchange", () => {
    const before = asked();
    read();
    if (asked() !== before) update();
  });
  saccade.replace = (next) => {
    const before = shown;
    const focused = document.activeElement?.dataset.label;
    data = next;
    offer();
    update();
    while (shown < Math.min(before, found.length)) grow();
    if (focused) document.querySelector(`.chipset [data-label="${CSS.escape(focused)}"]`)?.focus();
  };
  offer();
  read();
  update();
  if (saccade.address()[0] === "gallery") gallery.scrollIntoView({ behavior: "instant" });
})();
