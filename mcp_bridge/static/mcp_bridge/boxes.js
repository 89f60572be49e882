/* Adds a search above many checkboxes. Without it, all are listed. */
"use strict";
{
    const MANY = 10;

    const addSearch = (list) => {
        const boxes = [...list.querySelectorAll("input[type=checkbox]")];
        if (boxes.length <= MANY) {
            return;
        }
        const search = document.createElement("input");
        search.type = "search";
        search.className = "mcp-search";
        // Translated by Django's catalogue for the admin.
        search.placeholder = window.gettext?.("Filter") ?? "Filter";
        search.setAttribute("aria-label", search.placeholder);
        search.addEventListener("input", () => {
            const words = search.value.toLowerCase().split(/\s+/);
            for (const box of boxes) {
                const label = box.closest("label");
                const text = label.textContent.toLowerCase();
                // What is chosen stays in view.
                const isShown = box.checked || words.every((word) => text.includes(word));
                label.parentElement.hidden = !isShown;
            }
        });
        // Enter would send the form.
        search.addEventListener("keydown", (event) => {
            if (event.key === "Enter") {
                event.preventDefault();
            }
        });
        list.prepend(search);
    };

    addEventListener("DOMContentLoaded", () => {
        document.querySelectorAll("#id_scope, #id_tools").forEach(addSearch);
    });
}
