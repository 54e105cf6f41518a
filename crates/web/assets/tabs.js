// Tabs, as a keyboard expects them. The chosen one is in the page's address.

export function tabs(names, state) {
  const all = names.map((name) => document.getElementById(`tab-${name}`));
  const show = () => {
    const wanted = names.includes(state.get("tab")) ? state.get("tab") : names[0];
    for (const tab of all) {
      const chosen = tab.id === `tab-${wanted}`;
      tab.setAttribute("aria-selected", String(chosen));
      tab.tabIndex = chosen ? 0 : -1;
      document.getElementById(tab.getAttribute("aria-controls")).hidden = !chosen;
    }
  };
  all.forEach((tab, place) => {
    const panel = document.getElementById(tab.getAttribute("aria-controls"));
    panel.setAttribute("role", "tabpanel");
    panel.setAttribute("aria-labelledby", tab.id);
    tab.addEventListener("click", () => state.set({ tab: names[place] }));
    tab.addEventListener("keydown", (event) => {
      const steps = { ArrowRight: place + 1, ArrowLeft: place - 1 + all.length, Home: 0, End: all.length - 1 };
      if (!(event.key in steps)) return;
      event.preventDefault();
      const next = steps[event.key] % all.length;
      state.set({ tab: names[next] });
      all[next].focus();
    });
  });
  state.on(["tab"], show);
  show();
}
