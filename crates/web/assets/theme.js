// The theme: the choice is the browser's to keep.

const THEMES = ["system", "light", "dark"];

export function theme(draw) {
  const button = document.getElementById("theme");
  let chosen = "system";
  try {
    chosen = localStorage.getItem("cachewise-theme") ?? "system";
  } catch {
    // Storage may be off: then the choice lasts as long as the page.
  }
  const wear = () => {
    if (chosen === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = chosen;
    button.textContent = `Theme: ${chosen}`;
    draw();
  };
  button.addEventListener("click", () => {
    chosen = THEMES[(THEMES.indexOf(chosen) + 1) % THEMES.length];
    try {
      localStorage.setItem("cachewise-theme", chosen);
    } catch {
      // As above.
    }
    wear();
  });
  wear();
}
