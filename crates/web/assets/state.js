// The state of the page in its address: reload, back, forward and a copied link restore it. In a recorded page
// it is behind the `#`, as a file has no query.

import { recorded } from "./source.js";

const DEFAULTS = { path: "/", tab: "processes", window: recorded ? "0" : "300", over: "", filter: "", sort: "", subject: "", from: "", to: "" };

const read = () => {
  const given = new URLSearchParams(recorded ? location.hash.slice(1) : location.search);
  return Object.fromEntries(Object.entries(DEFAULTS).map(([key, usual]) => [key, given.get(key) ?? usual]));
};

export class State {
  constructor() {
    this.values = read();
    this.listeners = [];
    addEventListener("popstate", () => this.change(read()));
  }

  get(key) {
    return this.values[key];
  }

  // Calls back with the state when one of these keys changes.
  on(keys, call) {
    this.listeners.push([keys, call]);
  }

  // `replace` makes no entry of its own in the browser's history: for what changes with each key press.
  set(changes, replace = false) {
    const wanted = { ...this.values, ...changes };
    const address = this.address(wanted);
    if (address === this.address(this.values)) return;
    history[replace ? "replaceState" : "pushState"](null, "", address);
    this.change(wanted);
  }

  // The address of a state; what is as usual is not in it.
  address(values) {
    const query = new URLSearchParams();
    for (const [key, usual] of Object.entries(DEFAULTS)) if (values[key] !== usual) query.set(key, values[key]);
    const text = query.toString().replaceAll("%2F", "/").replaceAll("%3A", ":");
    if (recorded) return `#${text}`;
    return text === "" ? "/" : `/?${text}`;
  }

  // The address with these changes, for links.
  link(changes) {
    return this.address({ ...this.values, ...changes });
  }

  change(wanted) {
    const changed = Object.keys(DEFAULTS).filter((key) => this.values[key] !== wanted[key]);
    this.values = wanted;
    for (const [keys, call] of this.listeners) if (keys.some((key) => changed.includes(key))) call(this.values);
  }
}
