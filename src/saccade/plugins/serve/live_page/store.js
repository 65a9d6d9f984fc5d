// Finished episodes, kept in this browser alone: the newest ones, each with its whole page.
const kept = (() => {
  const MOST = 40;
  let memory = null; // where a browser gives no database, for as long as the page is open

  const done = (request) => new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
  const opened = new Promise((resolve) => {
    try {
      const request = indexedDB.open("saccade", 1);
      request.onupgradeneeded = () => request.result.createObjectStore("questions", { keyPath: "when" });
      request.onsuccess = () => resolve(request.result);
      request.onerror = () => resolve(null);
    } catch {
      resolve(null);
    }
  });
  const table = async (mode) => {
    const base = await opened;
    if (base) return base.transaction("questions", mode).objectStore("questions");
    memory = memory || new Map();
    return null;
  };

  // Newest first.
  const all = async () => {
    const stored = await table("readonly");
    const found = stored ? await done(stored.getAll()) : [...memory.values()];
    return found.sort((one, other) => other.when - one.when);
  };
  const put = async (question) => {
    const stored = await table("readwrite");
    if (!stored) memory.set(question.when, question);
    else await done(stored.put(question));
    for (const old of (await all()).slice(MOST)) await drop(old.when);
  };
  const drop = async (when) => {
    const stored = await table("readwrite");
    if (!stored) memory.delete(when);
    else await done(stored.delete(when));
  };
  const clear = async () => {
    const stored = await table("readwrite");
    if (!stored) memory.clear();
    else await done(stored.clear());
  };
  const words = async () => (await opened)
    ? `The last ${MOST} questions are kept in this browser, and nowhere else.`
    : "This browser keeps nothing, so they are gone when the page is closed.";
  return { all, put, clear, words };
})();
