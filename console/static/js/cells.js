// Pressing a cell of the fitness matrix shows its terms; pressing it again hides them.
export function cells(page) {
  page.addEventListener("click", (event) => {
    const button = event.target.closest("[data-cell]");
    if (!button) return;
    const isOpen = button.getAttribute("aria-pressed") === "true";
    for (const other of button.closest("table").querySelectorAll("[data-cell]")) {
      other.setAttribute("aria-pressed", String(other === button && !isOpen));
    }
    const place = page.getElementById(button.getAttribute("aria-controls"));
    for (const terms of place.children) terms.hidden = isOpen || terms.id !== button.dataset.cell;
  });
}
