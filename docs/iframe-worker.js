// Browsers start no workers from files, so search needs a stand-in where the site is opened without a server: an iframe
// that runs the worker's script. The theme's worker expects it under this name.
class IFrameWorker extends EventTarget {
  constructor(url) {
    super();
    this.waiting = [];
    const frame = document.createElement("iframe");
    frame.hidden = true;
    document.body.append(frame);
    this.inner = frame.contentWindow;
    this.inner.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
    this.inner.importScripts = async (...scripts) => {
      for (const each of scripts) await this.load(each);
    };
    this.load(url).then(() => {
      for (const data of this.waiting.splice(0)) this.deliver(data);
      this.waiting = null;
    });
  }

  load(url) {
    const script = this.inner.document.createElement("script");
    const loaded = new Promise((resolve, reject) => {
      script.onload = resolve;
      script.onerror = reject;
    });
    script.src = url;
    this.inner.document.body.append(script);
    return loaded;
  }

  postMessage(data) {
    if (this.waiting) this.waiting.push(data);
    else this.deliver(data);
  }

  deliver(data) {
    this.inner.dispatchEvent(new MessageEvent("message", { data }));
  }

  terminate() {
    this.inner.frameElement.remove();
  }
}

if (location.protocol === "file:") {
  window.IFrameWorker = IFrameWorker;
  window.Worker = IFrameWorker;
}
