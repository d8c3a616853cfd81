// Light or dark as the reader chose, else as the system says. Runs before the page is painted.
const kept = localStorage.getItem("theme");
if (kept) document.documentElement.dataset.theme = kept;

addEventListener("click", (event) => {
  if (!event.target.closest("[data-theme-toggle]")) return;
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  localStorage.setItem("theme", root.dataset.theme);
  dispatchEvent(new Event("themechange"));
});
