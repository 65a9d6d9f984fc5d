// The gallery of a report: filters, and cards that are made when they come near. Texts are set as text.
(() => {
  const gallery = document.getElementById("gallery");
  if (!gallery) return;
  const data = JSON.parse(document.getElementById("gallery-data").textContent);
  const [HREF, RUN, SOURCE, DIALECT, LABELS, QUESTION, ANSWER, GOLD, ID, TURNS, PICTURE, PROBLEM] = Array(12).keys();
  const AT_ONCE = 60;
  const byId = (name) => document.getElementById(name);
  const selects = [["run", RUN, data.runs], ["source", SOURCE, data.sources], ["dialect", DIALECT, data.dialects]];
  const counts = data.labels.map((_, label) => data.items.filter((item) => item[LABELS].includes(label)).length);
  const pressed = new Set();

  // The offers: labels that some episode has, and fields that have several values.
  const add = (parent, tag, text, kind) => {
    const element = parent.appendChild(document.createElement(tag));
    if (text !== undefined) element.textContent = text;
    if (kind) element.className = kind;
    return element;
  };
  data.labels.forEach((name, label) => {
    if (!counts[label]) return;
    const isOutcome = label < data.outcomes;
    const button = add(byId(isOutcome ? "outcomes" : "labels"), "button");
    button.type = "button";
    button.dataset.label = String(label);
    if (isOutcome) add(button, "i", "", `dot ${data.tones[label]}`);
    add(button, "span", name);
    add(button, "span", counts[label].toLocaleString("en"), "dim");
    button.addEventListener("click", () => {
      if (!pressed.delete(label)) pressed.add(label);
      update();
    });
  });
  for (const [name, , values] of selects) {
    const select = byId(name);
    add(select, "option", "all").value = "";
    values.forEach((value, number) => { add(select, "option", value || "–").value = String(number); });
    select.closest("label").hidden = values.length < 2;
    select.addEventListener("change", () => update());
  }

  // What is asked for: one of the pressed outcomes, all of the other pressed labels, each chosen field, the text.
  const told = (item) => item.told ??= [item[QUESTION], item[ANSWER], item[GOLD], item[ID]].join("\n").toLowerCase();
  const chosen = () => {
    const outcomes = [...pressed].filter((label) => label < data.outcomes);
    const labels = [...pressed].filter((label) => label >= data.outcomes);
    const picked = selects.map(([name, field]) => [byId(name).value, field]).filter(([value]) => value !== "");
    const text = byId("find").value.trim().toLowerCase();
    return data.items.filter((item) =>
      (!outcomes.length || outcomes.some((label) => item[LABELS].includes(label))) &&
      labels.every((label) => item[LABELS].includes(label)) &&
      picked.every(([value, field]) => item[field] === Number(value)) &&
      (!text || told(item).includes(text)));
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
      missing.textContent = item[PROBLEM] || (item[HREF] ? "no picture" : "came to nothing");
      link.prepend(missing);
    }
    link.querySelector(".question").textContent = item[QUESTION];
    const answer = link.querySelector(".answer");
    if (item[ANSWER] !== null) answer.textContent = item[ANSWER];
    else add(answer, "i", "no answer");
    const outcome = item[LABELS].find((label) => label < data.outcomes);
    if (item[GOLD] !== null && data.labels[outcome] !== "right") add(answer, "span", `  gold: ${item[GOLD]}`, "gold");
    const verdict = link.querySelector(".verdict");
    verdict.textContent = data.labels[outcome];
    verdict.classList.add({ right: "right", wrong: "wrong", "no answer": "wrong" }[data.labels[outcome]] || "other");
    const meta = link.querySelector(".meta");
    for (const label of item[LABELS]) if (label >= data.outcomes) add(meta, "span", data.labels[label], "tag");
    if (item[TURNS]) add(meta, "span", item[TURNS] === 1 ? "1 turn" : `${item[TURNS]} turns`);
    if (data.runs.length > 1) add(meta, "b", data.runs[item[RUN]]);
    add(meta, "span", item[ID], "dim");
    return made;
  };

  let found = [];
  let shown = 0;
  const cards = byId("cards");
  const more = byId("more");
  const grow = () => {
    const next = document.createDocumentFragment();
    for (const item of found.slice(shown, shown + AT_ONCE)) next.append(card(item));
    shown = Math.min(found.length, shown + AT_ONCE);
    saccade.fill(next);
    cards.append(next);
    more.hidden = shown >= found.length;
  };
  const update = () => {
    found = chosen();
    shown = 0;
    cards.replaceChildren();
    for (const button of document.querySelectorAll(".chipset button")) {
      button.setAttribute("aria-pressed", String(pressed.has(Number(button.dataset.label))));
    }
    const all = data.items.length.toLocaleString("en");
    byId("found").textContent = `${found.length.toLocaleString("en")} of ${all} episodes`;
    grow();
    const values = [...selects.map(([name]) => byId(name).value), byId("find").value];
    history.replaceState({ labels: [...pressed], values }, "");
  };
  more.addEventListener("click", grow);
  new IntersectionObserver((seen) => { if (seen.some((one) => one.isIntersecting)) grow(); }, { rootMargin: "900px" }).observe(more);
  byId("find").addEventListener("input", () => update());
  byId("filters").addEventListener("submit", (event) => event.preventDefault());
  byId("filters").addEventListener("reset", () => {
    pressed.clear();
    setTimeout(update);
  });

  // Who comes back finds what was asked for before.
  if (history.state && history.state.labels) {
    for (const label of history.state.labels) pressed.add(label);
    [...selects.map(([name]) => name), "find"].forEach((name, place) => { byId(name).value = history.state.values[place]; });
  }
  update();
})();
