// The question that is being put together, the examples, the history, and which of them is on the screen.
const by = (id) => document.getElementById(id);
const state = { about: null, media: [], dialects: {}, runs: [], token: "" };
try {
  state.token = sessionStorage.getItem("saccade-token") || "";
} catch { /* then it is asked for again */ }

// A request to this server; raises what the server says.
const call = async (path, { body, signal } = {}) => {
  const headers = state.token ? { authorization: `Bearer ${state.token}` } : {};
  if (body) headers["content-type"] = "application/json";
  const options = { headers, signal, method: body ? "POST" : "GET", credentials: "omit" };
  if (body) options.body = JSON.stringify(body);
  let answer;
  try {
    answer = await fetch(path, options);
  } catch (error) {
    throw error.name === "AbortError" ? error : new Error("The server does not answer. Is `saccade serve` still running?");
  }
  if (answer.ok) return answer;
  if (answer.status === 401) view("token");
  const told = await answer.json().catch(() => null);
  throw new Error(told?.error?.message || `The server answered ${answer.status}.`);
};

// `compose`, `runs` or `token`.
const view = (which) => {
  for (const id of ["title", "composer", "examples", "history"]) by(id).hidden = which !== "compose";
  by("runs").hidden = by("anew").hidden = which !== "runs";
  by("token").hidden = which !== "token";
  if (which === "token") by("token-field").focus();
  if (which === "compose") {
    if (by("examples").querySelector("li")) drawExamples();
    else by("examples").hidden = true;
    drawHistory();
  }
  window.scrollTo({ top: 0, behavior: "instant" });
};
const problem = (text) => { by("problem").textContent = text; };

// Pictures and videos.
const data = (file) => new Promise((resolve, reject) => {
  const reader = new FileReader();
  reader.onload = () => resolve(reader.result);
  reader.onerror = () => reject(reader.error);
  reader.readAsDataURL(file);
});

// A file that was given. It is shown as the browser shows it, and the server says whether it can be used.
class Medium {
  constructor(file, url) {
    this.name = file.name || "picture";
    this.url = url;
    this.kind = file.type.startsWith("video/") ? "video" : "image";
    this.holds = "being checked";
    this.checked = this.check();
    this.item = make("li");
    const remove = make("button", "", "×");
    remove.type = "button";
    remove.setAttribute("aria-label", `Remove ${this.name}`);
    remove.addEventListener("click", () => {
      this.drop();
      by("files").focus();
    });
    this.item.append(this.figure(), remove);
  }

  figure() {
    const figure = make("figure");
    const shown = make(this.kind === "video" ? "video" : "img");
    shown.src = this.thumbnail || this.url;
    if (this.kind === "video") shown.controls = true;
    else shown.alt = this.name;
    shown.addEventListener("error", () => shown.replaceWith(make("span", "missing", "no preview")));
    const caption = make("figcaption", "", this.name);
    caption.append(make("span", "dim", ` ${this.holds}`));
    figure.append(shown, caption);
    return figure;
  }

  async check() {
    try {
      const answer = await call("/live/check", { body: { url: this.url, filename: this.name } });
      const { holds, thumbnail } = await answer.json();
      this.holds = holds;
      if (this.item.querySelector(".missing")) this.thumbnail = thumbnail; // the browser cannot show it, the server can
      this.item.firstChild.replaceWith(this.figure());
    } catch (error) {
      this.drop();
      problem(error.message);
    }
  }

  drop() {
    state.media = state.media.filter((other) => other !== this);
    this.item.remove();
  }
}
const take = async (files) => {
  problem("");
  for (const file of files) {
    const url = await data(file);
    const sum = state.media.reduce((total, medium) => total + medium.url.length, url.length);
    if (sum > state.about.bytes - 65_536) problem(`${file.name} is too large: this server takes ${Math.floor(state.about.bytes * 0.75 / 2 ** 20)} MB at once.`);
    else if (state.media.length >= state.about.media) problem(`This server takes ${state.about.media} pictures at once.`);
    else {
      const medium = new Medium(file, url);
      state.media.push(medium);
      by("media").append(medium.item);
    }
  }
};

// Asking.
const chosen = () => [...by("models").querySelectorAll("input:checked")].map((box) => box.value);
const asked = () => {
  const parts = state.media.map(({ kind, url, name }) => ({ type: `${kind}_url`, [`${kind}_url`]: { url, filename: name } }));
  const choices = by("choices").value.split(";").map((choice) => choice.trim()).filter(Boolean);
  const text = by("question").value.trim();
  return { messages: [{ role: "user", content: [...parts, { type: "text", text }] }], saccade: { choices } };
};
const showRuns = (question, runs) => {
  state.runs = runs;
  by("runs").className = runs.length < 2 ? "" : runs.length === 3 ? "side three" : "side";
  by("runs").replaceChildren(make("h1", "asked", question), ...runs.map((run) => run.element));
  view("runs");
};
const ask = async () => {
  const models = chosen();
  const question = by("question").value.trim();
  if (!question) return by("question").focus();
  if (!models.length) return problem("Choose a model.");
  problem("");
  const given = state.media;
  const full = (model) => state.about.models.find((one) => one.name === model).full;
  const runs = models.map((model) => new Run(model, call, { media: given, full: full(model) }));
  showRuns(question, runs);
  runs[0].stopper.focus();
  await Promise.all(given.map((medium) => medium.checked));
  if (given !== state.media) { // one of them cannot be used, which is said there
    state.runs = [];
    return view("compose");
  }
  const body = asked();
  const when = Date.now();
  await Promise.all(runs.map((run) => {
    const dialect = state.dialects[run.model];
    return run.play(dialect ? { ...body, saccade: { ...body.saccade, dialect } } : body);
  }));
  const finished = runs.filter((run) => run.page);
  if (!finished.length) return;
  const thumbnail = finished[0].section.querySelector(".originals img")?.src || "";
  const stored = finished.map((run) => ({ model: run.model, page: run.page, ...run.result }));
  await kept.put({ when, question, thumbnail, runs: stored }).catch(() => problem("The browser could not keep this episode: its storage is full."));
};

// Tiles of examples and of the history.
const tile = (thumbnail, head, text, then) => {
  const item = make("li");
  const button = make("button", "tile");
  button.type = "button";
  if (thumbnail) {
    const image = make("img");
    image.src = thumbnail;
    image.alt = "";
    button.append(image);
  }
  const words = make("span", "text");
  words.append(make("b", "", head), ...text.map(([kind, line]) => make("span", kind, line)));
  button.append(words);
  button.addEventListener("click", then);
  item.append(button);
  return item;
};
const drawExamples = async () => {
  const listed = await (await call("/live/examples")).json();
  const names = state.about.models.map((model) => model.name);
  const earlier = (await kept.all()).flatMap(({ question, runs }) => runs.map((run) => ({ question, ...run })));
  const time = ({ question, seconds, tiny }) => {
    const last = earlier.find((run) => run.question === question && names.includes(run.model));
    if (last) return `${last.model} took ${last.seconds} s last time`;
    if (!names.includes("tiny")) return "not timed yet";
    return tiny ? `tiny takes about ${seconds} s` : `tiny did not learn this, and takes about ${seconds} s`;
  };
  by("examples").querySelector("ul").replaceChildren(...listed.map((example) => {
    if (example.problem) {
      const item = make("li", "missing", example.problem);
      item.prepend(make("span", "", example.family));
      return item;
    }
    const lines = [["", example.question], ["dim time", time(example)]];
    return tile(example.thumbnail, example.family, lines, () => useExample(example));
  }));
  by("examples").hidden = by("composer").hidden;
};
const useExample = async (example) => {
  const files = await Promise.all(example.media.map(async (type, number) => {
    const answer = await call(`/live/examples/${example.name}/${number}`);
    return new File([await answer.blob()], `${example.name}${number ? `-${number + 1}` : ""}.${type.split("/")[1]}`, { type });
  }));
  for (const medium of state.media) medium.drop();
  by("question").value = example.question;
  by("choices").value = example.choices.join("; ");
  state.dialects = example.dialects;
  await take(files);
  by("ask").focus({ preventScroll: true });
  window.scrollTo({ top: 0 });
};
const drawHistory = async () => {
  const all = await kept.all();
  by("kept").textContent = await kept.words();
  by("history").hidden = !all.length || by("composer").hidden;
  by("history").querySelector("ul").replaceChildren(...all.map((question) => {
    const lines = question.runs.map((run) => ["dim", `${run.model}: ${run.answer ?? "no answer"}`]);
    return tile(question.thumbnail, question.question, lines, () => {
      const runs = question.runs.map((stored) => {
        const run = new Run(stored.model, call);
        run.restore(stored);
        return run;
      });
      showRuns(question.question, runs);
      by("anew").focus();
    });
  }));
};

const begin = async () => {
  state.about = await (await call("/live/about")).json();
  by("models").append(...state.about.models.map((model, number) => {
    const label = make("label");
    const box = make("input");
    Object.assign(box, { type: "checkbox", value: model.name, checked: !number });
    label.title = model.full;
    label.append(box, model.name);
    return label;
  }));
  view("compose");
  by("question").focus({ preventScroll: true });
  await drawExamples();
};
const started = () => begin().catch((error) => {
  if (by("token").hidden) {
    view("compose");
    problem(error.message);
  }
});

by("token").addEventListener("submit", (event) => {
  event.preventDefault();
  state.token = by("token-field").value.trim();
  try {
    sessionStorage.setItem("saccade-token", state.token);
  } catch { /* then it is asked for again */ }
  started();
});
by("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  ask();
});
by("question").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  ask();
});
by("question").addEventListener("input", () => { state.dialects = {}; });
by("files").addEventListener("change", async () => {
  await take(by("files").files);
  by("files").value = "";
});
by("anew").addEventListener("click", () => {
  for (const run of state.runs) if (run.element.classList.contains("playing")) run.stop();
  view("compose");
  by("question").focus({ preventScroll: true });
  by("question").select();
});
by("forget").addEventListener("click", async () => {
  await kept.clear();
  await drawHistory();
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || event.defaultPrevented || by("lightbox").open) return;
  for (const run of state.runs) if (run.element.classList.contains("playing")) run.stop();
});
document.addEventListener("paste", (event) => {
  if (by("composer").hidden || !event.clipboardData.files.length) return;
  event.preventDefault();
  take([...event.clipboardData.files]);
});
let inside = 0; // drags enter and leave every element on their way
for (const [kind, step] of [["dragenter", 1], ["dragleave", -1]]) {
  document.addEventListener(kind, () => {
    inside += step;
    document.body.classList.toggle("dropping", inside > 0);
  });
}
document.addEventListener("dragover", (event) => event.preventDefault());
document.addEventListener("drop", (event) => {
  event.preventDefault(); // a file that is dropped beside it must not take the place of the page
  inside = 0;
  document.body.classList.remove("dropping");
  if (!by("composer").hidden) take([...event.dataTransfer.files]);
});
started();
