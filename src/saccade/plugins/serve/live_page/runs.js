// One episode: its events as they come, or its page from the history. The server draws; here its pieces are put in place.
const make = (tag, kind, text) => {
  const element = document.createElement(tag);
  if (kind) element.className = kind;
  if (text !== undefined) element.textContent = text;
  return element;
};

const BLOCKS = ":scope > .head, :scope > .columns > .originals, .turns > .turn:not(.writing), .turns > .seen, " +
  ".turns > .end, .turns > .note, :scope > .numbers";
const STATES = { waiting: "waits for other questions to end", asking: "the model reads", running: "its code runs", ended: "ended" };

class Run {
  // `media` are shown until the server has drawn them; `full` is the model's full name, for its owner alone.
  constructor(model, call, { media = [], full = "" } = {}) {
    this.model = model;
    this.call = call; // asks the server
    this.about = !media.length ? "question" : media.length > 1 ? "pictures" : media[0].kind === "video" ? "video" : "picture";
    this.element = make("article", "run playing");
    this.element.setAttribute("aria-label", model);
    const bar = make("header", "bar");
    this.name = make("strong", "name", model);
    this.name.title = full;
    this.dialect = make("span", "dim dialect");
    this.state = make("span", "state", `sending the ${this.about}`);
    this.state.setAttribute("role", "status");
    this.clock = make("span", "clock dim");
    this.stopper = make("button", "stop-button", "Stop");
    this.stopper.type = "button";
    this.stopper.addEventListener("click", () => this.stop());
    this.save = make("a", "button save", "Save page");
    this.save.hidden = true;
    bar.append(this.name, this.clock, this.stopper, this.save, this.state, this.dialect);
    this.body = make("div", "body");
    if (media.length) this.body.append(this.early = make("div", "early"));
    this.early?.append(...media.map((medium) => medium.figure()));
    this.element.append(bar, this.body);
    this.seen = new Map(); // of each block the HTML that was put in place
    this.abort = new AbortController();
  }

  // Ask, and follow the events to their end.
  async play(body) {
    const begun = performance.now();
    const timer = setInterval(() => { this.clock.textContent = `${((performance.now() - begun) / 1000).toFixed(0)} s`; }, 250);
    try {
      const answer = await this.call("/live/ask", { body: { ...body, model: this.model }, signal: this.abort.signal });
      for await (const event of events(answer.body)) this.on(event);
      if (!this.page && !this.failed) throw new Error("The server ended before the episode did.");
    } catch (error) {
      this.fail(error.name === "AbortError" ? "Left before it began." : error.message);
    } finally {
      clearInterval(timer);
      this.end();
    }
  }

  // A reader who sees the end of the last turn is kept there.
  on(event) {
    const end = () => [...this.body.querySelectorAll(".turn")].pop()?.getBoundingClientRect().bottom ?? 0;
    const follows = end() < 1.4 * window.innerHeight; // pictures that are not decoded yet have no height
    this.draw(event);
    const below = end() + 24 - window.innerHeight;
    if (follows && below > 0) window.scrollBy({ top: below, behavior: "instant" });
  }

  draw(event) {
    if (event.kind === "state") this.state.textContent = STATES[event.state] || `opening the ${this.about}`;
    else if (event.kind === "begun") {
      this.id = event.id;
      this.dialect.textContent = event.dialect;
      this.state.textContent = "starting the episode";
      this.remark(event.notes);
    } else if (event.kind === "text") this.write(event.piece, event.again);
    else if (event.kind === "shown") {
      saccade.add(event.pictures);
      this.show(new DOMParser().parseFromString(event.html, "text/html"));
      this.state.textContent = STATES[event.state];
      this.writing?.remove();
      this.writing = null;
      if (event.state === "asking") this.write("", false);
    } else if (event.kind === "done") {
      this.finish(event.page);
      this.result = { answer: event.answer, turns: event.turns, seconds: event.seconds, dialect: this.dialect.textContent };
      this.tell(this.result);
    } else if (event.kind === "failed") this.fail(event.message);
  }

  tell({ answer, turns, seconds, dialect }) {
    const after = `after ${turns} turn${turns === 1 ? "" : "s"}`;
    this.state.replaceChildren(...(answer === null ? [`no answer ${after}`] : [make("b", "", answer), ` ${after}`]));
    this.clock.textContent = `${seconds} s`;
    this.dialect.textContent = dialect;
  }

  remark(notes) {
    if (!notes.length) return;
    const list = make("ul", "remarks");
    list.append(...notes.map((note) => make("li", "", note)));
    this.body.prepend(list);
  }

  write(piece, again) {
    const turns = this.section?.querySelector(".turns");
    if (!turns) return;
    if (!this.writing) {
      const number = turns.querySelectorAll(".turn").length + 1;
      this.writing = make("article", `turn writing hue${(number - 1) % 8}`);
      const head = make("h3");
      head.append(make("span", "number", String(number)), "writes …");
      this.text = document.createTextNode("");
      const pre = make("pre");
      pre.append(this.text);
      this.writing.append(head, pre);
      turns.insertBefore(this.writing, turns.querySelector(".end"));
    }
    if (piece) this.state.textContent = "the model writes";
    if (again) this.text.data = "";
    this.text.appendData(piece);
    this.text.parentNode.scrollTop = this.text.parentNode.scrollHeight;
  }

  // Put what is new or has changed of a drawn episode in its place; what a reader has opened elsewhere stays open.
  show(parsed) {
    const drawn = parsed.querySelector("section.episode");
    this.early?.remove();
    if (!this.section) {
      this.section = document.importNode(drawn, true);
      this.body.append(this.section);
      saccade.linked(this.section);
      for (const block of drawn.querySelectorAll(BLOCKS)) this.seen.set(name(block), block.outerHTML);
    } else {
      const wanted = new Set([...drawn.querySelectorAll(BLOCKS)].map(name));
      const inPlace = new Map([...this.section.querySelectorAll(BLOCKS)].map((block) => [name(block), block]));
      for (const block of drawn.querySelectorAll(BLOCKS)) {
        const key = name(block);
        const html = block.outerHTML;
        if (this.seen.get(key) === html) continue;
        this.seen.set(key, html);
        const fresh = document.importNode(block, true);
        if (inPlace.has(key)) inPlace.get(key).replaceWith(fresh);
        else if (block.closest(".turns")) this.section.querySelector(".turns").insertBefore(fresh, this.writing || inPlace.get("end"));
      }
      for (const [key, block] of inPlace) if (!wanted.has(key)) block.remove();
    }
    saccade.fill(this.section);
  }

  // The page of the episode: what is saved, sent to others, and kept in the history.
  finish(page) {
    this.page = page;
    this.save.href = URL.createObjectURL(new Blob([page], { type: "text/html" }));
    this.save.download = `saccade-${this.model.replace(/[^\w.-]+/g, "-")}-${new Date().toISOString().slice(0, 19).replace(/\D/g, "")}.html`;
    this.save.title = "One file with everything in it, to send to others";
    this.save.hidden = false;
  }

  restore(stored) {
    // Without its style, which the policy of this page does not allow.
    const parsed = new DOMParser().parseFromString(stored.page.replace(/<style>[^]*?<\/style>/, ""), "text/html");
    saccade.add(JSON.parse(parsed.getElementById("pictures").textContent));
    this.show(parsed);
    this.finish(stored.page);
    this.tell(stored);
    this.end();
  }

  async stop() {
    this.stopper.disabled = true;
    this.state.textContent = "stops …";
    if (!this.id) return this.abort.abort();
    try {
      await this.call("/live/stop", { body: { id: this.id } });
    } catch { /* it ended meanwhile */ }
  }

  fail(message) {
    this.failed = true;
    this.state.textContent = "failed";
    this.body.append(make("p", "problems", message));
  }

  end() {
    this.writing?.remove();
    this.element.classList.remove("playing");
    if (document.activeElement === this.stopper) this.save.focus();
    this.stopper.remove();
  }
}

const name = (block) => block.id || block.className.split(" ")[0];

// Server-sent events of a response that is still coming.
async function* events(stream) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n\n");
    rest = parts.pop();
    for (const part of parts) if (part.startsWith("data: ")) yield JSON.parse(part.slice(6));
  }
}
