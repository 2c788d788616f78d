import "./style/base.css";
import "./style/frame.css";
import "./style/lists.css";
import "./style/event.css";
import "./style/story.css";
import "./style/dialogs.css";

import { render } from "preact";
import { App } from "./app";

const page = document.getElementById("page")!;
page.replaceChildren();
render(<App />, page);
