// The scripts of the pages in addition to htmx. Each finds its own elements, so every page may load it.
import { cells } from "./cells.js";
import { elapsed } from "./elapsed.js";
import { keys } from "./keys.js";
import { trouble } from "./trouble.js";
import { uploads } from "./uploads.js";

for (const part of [cells, elapsed, keys, trouble, uploads]) part(document);
