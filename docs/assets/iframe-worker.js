// Search in pages opened from the disk, where a browser starts no worker: the script runs in a hidden frame instead.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      const inside = frame.contentWindow;
      // What the worker's script expects around it.
      inside.postMessage = message => this.dispatchEvent(new MessageEvent("message", {data: message}));
      inside.importScripts = (...scripts) => scripts.reduce((before, script) => before.then(() => load(inside, script)), Promise.resolve());
      this.inside = inside;
      this.ready = load(inside, url);
    }
    postMessage(message) {
      this.ready.then(() => this.inside.dispatchEvent(new MessageEvent("message", {data: message})));
    }
    terminate() {
      this.inside.frameElement.remove();
    }
  };

  function load(inside, url) {
    return new Promise((done, failed) => {
      const script = inside.document.createElement("script");
      script.src = url;
      script.onload = done;
      script.onerror = failed;
      inside.document.body.append(script);
    });
  }
}
