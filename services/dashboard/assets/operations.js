import { start } from "./shell.js";

await start();
