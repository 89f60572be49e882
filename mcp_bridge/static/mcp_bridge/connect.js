/* Copies texts, and turns sections into tabs. Without it, the sections are below one another. */
"use strict";
{
    const copy = async (text) => {
        if (navigator.clipboard) {
            await navigator.clipboard.writeText(text.textContent);
            return;
        }
        // Over HTTP there is no clipboard API, so the selection is copied with a command.
        getSelection().selectAllChildren(text);
        document.execCommand("copy");
    };

    const addButton = (place) => {
        const button = place.querySelector("button");
        const before = button.textContent;
        const copied = document.querySelector("[data-copied]")?.dataset.copied ?? before;
        button.hidden = false;
        button.setAttribute("aria-live", "polite");
        button.addEventListener("click", async () => {
            await copy(place.querySelector("pre"));
            button.textContent = copied;
            setTimeout(() => { button.textContent = before; }, 2000);
        });
    };

    // https://www.w3.org/WAI/ARIA/apg/patterns/tabs/
    const addTabs = (group) => {
        const sections = [...group.querySelectorAll("section")];
        const list = document.createElement("div");
        list.className = "mcp-tabs";
        list.setAttribute("role", "tablist");
        const tabs = sections.map((section) => {
            const tab = document.createElement("button");
            tab.type = "button";
            tab.className = "button";
            tab.id = `${section.id}-tab`;
            tab.textContent = section.querySelector("h2").textContent;
            tab.setAttribute("role", "tab");
            tab.setAttribute("aria-controls", section.id);
            section.querySelector("h2").hidden = true;
            section.setAttribute("role", "tabpanel");
            section.setAttribute("aria-labelledby", tab.id);
            list.append(tab);
            return tab;
        });
        const select = (chosen) => {
            tabs.forEach((tab, number) => {
                tab.setAttribute("aria-selected", number === chosen);
                tab.tabIndex = number === chosen ? 0 : -1;
                sections[number].hidden = number !== chosen;
            });
        };
        tabs.forEach((tab, number) => {
            tab.addEventListener("click", () => select(number));
            tab.addEventListener("keydown", (event) => {
                const steps = { ArrowRight: 1, ArrowLeft: -1 };
                if (!(event.key in steps)) {
                    return;
                }
                const next = (number + steps[event.key] + tabs.length) % tabs.length;
                select(next);
                tabs[next].focus();
            });
        });
        sections[0].before(list);
        select(0);
    };

    addEventListener("DOMContentLoaded", () => {
        document.querySelectorAll(".mcp-copied").forEach(addButton);
        document.querySelectorAll("[data-mcp-tabs]").forEach(addTabs);
    });
}
