// What a reader changed before the page could answer, and what the browser filled in again on
// reload, is announced once htmx listens: otherwise the form says one thing and the page another.
addEventListener("htmx:load", () => {
  const served = (select) => Math.max(0, [...select.options].findLastIndex((option) => option.defaultSelected));
  const fields = "input, select, textarea";
  for (const form of document.querySelectorAll("form[hx-get], form[hx-post]")) {
    for (const field of form.querySelectorAll(fields)) {
      const same = field.matches("select")
        ? field.selectedIndex === served(field)
        : field.value === field.defaultValue && field.checked === field.defaultChecked;
      if (!same) field.dispatchEvent(new Event("change", { bubbles: true }));
    }
  }
}, { once: true });
