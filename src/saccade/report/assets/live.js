// A run that grows: asks for its data while the page is seen, and puts them in place of the old ones.
(() => {
  let version = JSON.parse(document.getElementById("gallery-data").textContent).version;
  const state = document.getElementById("state");
  const showFacts = (facts) => {
    document.getElementById("facts").replaceChildren(...facts.map((fact) => {
      const line = document.createElement("li");
      line.textContent = fact;
      return line;
    }));
  };
  const ask = async () => {
    if (document.hidden) return;
    try {
      const answer = await fetch(`data.json?version=${encodeURIComponent(version)}`);
      if (answer.status === 200) {
        const data = await answer.json();
        version = data.version;
        showFacts(data.facts);
        saccade.replace(data);
      } else if (answer.status !== 204) throw new Error(await answer.text());
      state.textContent = `looked at ${new Date().toLocaleTimeString()}`;
      state.classList.remove("bad");
    } catch (error) {
      state.textContent = error instanceof TypeError ? "The server is gone; start it again: saccade view" : error.message;
      state.classList.add("bad");
    }
  };
  showFacts(JSON.parse(document.getElementById("gallery-data").textContent).facts);
  setInterval(ask, 2000);
  document.addEventListener("visibilitychange", ask);
})();
