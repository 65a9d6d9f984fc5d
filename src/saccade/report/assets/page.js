"use strict";
// Fills in pictures, opens them large, links boxes with turns, shows one episode at a time. Writes no HTML.
const saccade = (() => {
  const sources = JSON.parse(document.getElementById("pictures").textContent);
  const fill = (root) => {
    for (const image of root.querySelectorAll("img[data-picture]")) {
      const found = sources[image.dataset.picture];
      if (found) image.src = found[0];
    }
  };
  fill(document);

  // Tables that are wider than their room say so.
  const sized = new ResizeObserver((changed) => {
    for (const { target } of changed) target.classList.toggle("wider", target.scrollWidth > target.clientWidth + 1);
  });
  const measured = (root) => { for (const room of root.querySelectorAll(".scroll")) sized.observe(room); };
  measured(document);

  // A box and its turn light up together.
  const linked = (episode) => {
    const light = (turn) => {
      episode.classList.toggle("lit", Boolean(turn && episode.querySelector(`.box[data-turn="${turn}"]`)));
      for (const part of episode.querySelectorAll("[data-turn]")) {
        part.classList.toggle("on", Boolean(turn) && part.dataset.turn === turn);
      }
    };
    for (const kind of ["mouseover", "focusin"]) {
      episode.addEventListener(kind, (event) => {
        const part = event.target.closest("[data-turn]");
        light(part ? part.dataset.turn : "");
      });
    }
    episode.addEventListener("mouseleave", () => light(""));
  };
  for (const episode of document.querySelectorAll("section.episode")) linked(episode);

  // One episode at a time, where there are several. Those that are folded are unfolded when they are asked for.
  const index = document.getElementById("index");
  let scrolled = 0;
  const unfold = (anchor) => {
    const folded = document.getElementById(`${anchor.split("-")[0]}-folded`);
    if (!(folded instanceof HTMLTemplateElement)) return;
    const episode = folded.content.firstElementChild;
    folded.replaceWith(episode);
    fill(episode);
    measured(episode);
    linked(episode);
  };
  const address = () => {
    const [anchor, ...query] = location.hash.slice(1).split("?");
    return [anchor, query.join("?")];
  };
  let begun = false;
  const route = () => {
    const [anchor, query] = address();
    unfold(anchor);
    const target = document.getElementById(anchor);
    const episode = target && target.closest("section.episode");
    const back = index.hidden && !episode;
    if (!index.hidden && episode) scrolled = window.scrollY;
    index.hidden = Boolean(episode);
    for (const one of document.querySelectorAll("section.episode")) one.hidden = one !== episode;
    if (back) window.scrollTo({ top: scrolled, behavior: "instant" });
    else if (target && !(begun && query)) target.scrollIntoView({ behavior: "instant" });
    else if (!begun && scrolled) window.scrollTo({ top: scrolled, behavior: "instant" });
    begun = true;
    if (episode) steps(episode);
  };

  // The samples before and after, in the order of the list that a reader came from; a page of one episode finds the
  // list where the report left it.
  const LIST = "saccade-list";
  let list = null;
  const remember = (order, home) => {
    list = { page: location.href.split("#")[0], order, home };
    try {
      sessionStorage.setItem(LIST, JSON.stringify(list));
    } catch { /* without a store of its own the browser has no list in other pages */ }
  };
  const known = () => {
    if (list) return list;
    try {
      return JSON.parse(sessionStorage.getItem(LIST));
    } catch {
      return null;
    }
  };
  const steps = (episode) => {
    const bar = episode.querySelector(".steps");
    const from = known();
    if (!bar || !from) return;
    const links = from.order.map((href) => new URL(href, from.page).href);
    const own = location.href.split("#")[0] + (index ? `#${episode.id}` : "");
    const place = links.indexOf(own);
    const near = bar.querySelector(".near");
    near.hidden = place < 0;
    if (place < 0) return;
    for (const [kind, step] of [["prev", -1], ["next", 1]]) {
      const link = near.querySelector(`[rel=${kind}]`);
      const href = links[place + step];
      if (href) link.href = href;
      else link.removeAttribute("href");
    }
    near.querySelector(".place").textContent = `${place + 1} of ${links.length}`;
    const up = bar.querySelector(".up");
    if (up) up.href = from.page + from.home;
  };
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || lightbox.open) return;
    if (event.target.closest("input, select, textarea")) return;
    const kind = { j: "[rel=next]", n: "[rel=next]", k: "[rel=prev]", p: "[rel=prev]", u: ".up" }[event.key];
    const link = kind && document.querySelector(`section.episode:not([hidden]) .steps ${kind}`);
    if (link && link.href && !link.closest("[hidden]")) link.click();
  });

  // The lightbox.
  const lightbox = document.getElementById("lightbox");
  const stage = lightbox.querySelector(".stage");
  const caption = lightbox.querySelector(".caption");
  let album = [];
  let place = 0;
  const show = (step) => {
    place = (step + album.length) % album.length;
    const frame = album[place];
    const image = frame.querySelector("img");
    const found = sources[image.dataset.picture];
    const copy = document.createElement("img");
    copy.src = found[1] || found[0];
    copy.alt = image.alt;
    const width = Number(image.getAttribute("width"));
    const height = Number(image.getAttribute("height"));
    const room = Math.min((window.innerWidth - 32) / width, (window.innerHeight - 96) / height, 8);
    copy.width = Math.max(1, Math.round(width * room));
    copy.height = Math.max(1, Math.round(height * room));
    copy.classList.toggle("pixels", room >= 2);
    const drawn = frame.querySelector("svg");
    stage.replaceChildren(copy, ...(drawn ? [drawn.cloneNode(true)] : []));
    const percent = Math.round(100 * room);
    caption.textContent = `${image.alt} — ${width}×${height}, at ${percent} %` +
      (album.length > 1 ? ` — ${place + 1} of ${album.length}` : "");
    lightbox.classList.toggle("alone", album.length < 2);
  };
  document.addEventListener("click", (event) => {
    const frame = event.target.closest("button.frame");
    if (!frame || lightbox.contains(frame)) return;
    const root = frame.closest("section.episode") || document;
    album = [...root.querySelectorAll("button.frame")].filter((one) => !one.closest("details:not([open])"));
    lightbox.showModal();
    lightbox.querySelector(".close").focus();
    show(album.indexOf(frame));
  });
  lightbox.addEventListener("keydown", (event) => {
    if (event.key === "ArrowRight") show(place + 1);
    else if (event.key === "ArrowLeft") show(place - 1);
    else if (event.key === "Home") show(0);
    else if (event.key === "End") show(album.length - 1);
    else return;
    event.preventDefault();
  });
  lightbox.querySelector(".previous").addEventListener("click", () => show(place - 1));
  lightbox.querySelector(".next").addEventListener("click", () => show(place + 1));
  lightbox.querySelector(".close").addEventListener("click", () => lightbox.close());
  lightbox.addEventListener("click", (event) => {
    if (event.target === lightbox || event.target === stage) lightbox.close();
  });
  lightbox.addEventListener("close", () => stage.replaceChildren());
  window.addEventListener("resize", () => { if (lightbox.open) show(place); });
  window.addEventListener("beforeprint", () => lightbox.close());

  if (index && document.querySelector("section.episode, template")) {
    const cards = [...index.querySelectorAll("a.card[href]")];
    if (cards.length) remember(cards.map((card) => card.getAttribute("href")), "#");
    window.addEventListener("hashchange", route);
    route();
  } else if (!index) {
    for (const episode of document.querySelectorAll("section.episode")) steps(episode);
  }
  return {
    fill: (root) => { fill(root); measured(root); },
    linked, address,
    add: (more) => Object.assign(sources, more),
    remember: (order, home) => {
      remember(order, home);
      const open = document.querySelector("section.episode:not([hidden])");
      if (open) steps(open);
    },
  };
})();
