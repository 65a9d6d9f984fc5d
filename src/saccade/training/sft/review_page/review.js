"use strict";
// The token comes with the address that the command prints; it goes back in a header, and for pictures in the address.
const token = new URLSearchParams(location.search).get("token") || "";
const by = (id) => document.getElementById(id);
const state = { items: [], tasks: false, at: 0, item: null, busy: false };
const WORDS = { keep: "Kept", drop: "Dropped", open: "Open" };

function make(tag, text, kind) {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  if (kind) element.className = kind;
  return element;
}

async function ask(path, body) {
  const options = { headers: { "X-Token": token } };
  if (body) Object.assign(options, { method: "POST", body: JSON.stringify(body) });
  const answer = await fetch(path, options);
  if (!answer.ok) throw new Error(await answer.text());
  return answer.json();
}

function picture(part, boxes) {
  const figure = make("figure");
  const address = `/media/${part.sha256}?token=${encodeURIComponent(token)}`;
  const shown = make(part.kind === "video" ? "video" : "img");
  shown.src = address;
  shown.width = part.width;
  shown.height = part.height;
  if (part.kind === "video") shown.controls = true;
  else shown.alt = part.name || "picture that came back";
  const frame = make("div", undefined, "frame");
  frame.append(shown);
  figure.append(frame);
  if (boxes.length) {
    const drawn = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    drawn.setAttribute("viewBox", `0 0 ${part.width} ${part.height}`);
    for (const box of boxes) {
      const rect = document.createElementNS("http://www.w3.org/2000/svg", "rect");
      const [left, top, right, bottom] = box.xyxy;
      const edges = { x: left, y: top, width: right - left, height: bottom - top };
      for (const [name, value] of Object.entries(edges)) rect.setAttribute(name, value);
      drawn.append(rect);
    }
    frame.append(drawn);
  }
  figure.append(make("figcaption", `${part.name || ""} ${part.width}×${part.height}`));
  return figure;
}

function drawItem() {
  const item = state.item;
  const scores = (item.scores || []).map(([name, value]) => `${name} ${value === null ? "–" : value}`);
  by("facts").textContent = [item.id, item.source, ...item.tags, ...scores].filter(Boolean).join(" · ");
  by("media").replaceChildren(...item.media.map((part) =>
    picture(part, item.evidence.filter((box) => box.image === part.name))));
  by("choices").replaceChildren(...item.choices.map((text) =>
    make("li", text, text === item.answer ? "gold" : "")));
  by("turns").replaceChildren(...item.turns.map((turn) => {
    const part = make("div", undefined, "turn");
    part.append(make("pre", [turn.text, ...turn.calls].join("\n")));
    if (turn.back) part.append(make("pre", turn.back, "back"));
    part.append(...turn.pictures.map((one) => picture(one, [])));
    return part;
  }));
  const decision = item.decision || {};
  by("question").value = decision.question ?? item.question;
  by("question").readOnly = !state.tasks;
  by("answer").value = decision.answer ?? item.answer ?? "";
  by("given").textContent = state.tasks ? "" : `The model's answer: ${item.final ?? "none"}`;
  by("note").value = decision.note || "";
  drawVerdict();
}

function drawVerdict() {
  const decision = state.item.decision;
  const corrected = decision && (decision.answer !== null || decision.question !== null);
  by("verdict").textContent = WORDS[decision ? decision.verdict : "open"] + (corrected ? ", corrected" : "");
  const count = (verdict) => state.items.filter((item) => item.verdict === verdict).length;
  by("progress").textContent =
    `${state.items.length - count("open")} of ${state.items.length} decided: ${count("keep")} kept, ${count("drop")} dropped`;
}

async function show(number) {
  if (!state.items.length) return;
  state.at = Math.max(0, Math.min(number, state.items.length - 1));
  try {
    const at = state.at;
    const item = await ask(`/item/${at}`);
    if (at !== state.at) return;
    state.item = item;
    by("number").value = at + 1;
    by("problem").textContent = "";
    drawItem();
  } catch (error) {
    by("problem").textContent = error.message;
  }
}

function nextOpen() {
  const count = state.items.length;
  for (let step = 1; step <= count; step++) {
    const at = (state.at + step) % count;
    if (state.items[at].verdict === "open") return show(at);
  }
  by("problem").textContent = "Everything is decided.";
}

async function decide(verdict) {
  if (!state.item || state.busy) return;
  state.busy = true;
  try {
    const at = state.at;
    const body = { verdict, note: by("note").value };
    if (verdict === "keep") {
      if (by("answer").value !== (state.item.answer ?? "")) body.answer = by("answer").value;
      if (state.tasks && by("question").value !== state.item.question) body.question = by("question").value;
    }
    const stored = await ask(`/item/${at}`, body);
    state.items[at].verdict = verdict;
    state.item.decision = stored.decision;
    by("problem").textContent = "";
    drawVerdict();
    if (verdict === "open") drawItem();
    else if (at + 1 < state.items.length) await show(at + 1);
  } catch (error) {
    by("problem").textContent = `Not stored. ${error.message}`;
  } finally {
    state.busy = false;
  }
}

const KEYS = {
  k: () => decide("keep"),
  d: () => decide("drop"),
  u: () => decide("open"),
  c: () => { by("answer").focus(); by("answer").select(); },
  n: nextOpen,
  j: () => show(state.at + 1),
  p: () => show(state.at - 1),
  ArrowRight: () => show(state.at + 1),
  ArrowLeft: () => show(state.at - 1),
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const field = event.target.closest("input, textarea");
  if (field) {
    if (event.key === "Escape") field.blur();
    if (event.key === "Enter" && field.id === "answer") { event.preventDefault(); field.blur(); decide("keep"); }
    return;
  }
  const act = KEYS[event.key];
  if (act) { event.preventDefault(); act(); }
});
by("decision").addEventListener("submit", (event) => event.preventDefault());
by("keep").addEventListener("click", () => decide("keep"));
by("drop").addEventListener("click", () => decide("drop"));
by("undo").addEventListener("click", () => decide("open"));
by("previous").addEventListener("click", () => show(state.at - 1));
by("next").addEventListener("click", () => show(state.at + 1));
by("open").addEventListener("click", nextOpen);
by("number").addEventListener("change", () => show(Number(by("number").value) - 1));

ask("/items").then((listed) => {
  Object.assign(state, { items: listed.items, tasks: listed.tasks });
  by("folder").textContent = `Review of ${listed.folder}`;
  by("number").max = listed.items.length;
  const open = listed.items.findIndex((item) => item.verdict === "open");
  return show(open < 0 ? 0 : open);
}).catch((error) => { by("problem").textContent = error.message; });
