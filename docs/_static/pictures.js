// Pictures in notebooks: titles and footers become text of the page, which wraps, and drawings have the width of the page.
addEventListener("load", () => {
  for (const picture of document.querySelectorAll(".js-plotly-plot")) {
    const { title, annotations, margin } = picture.layout;
    const isFooter = note => note.name === "opendp-tree-footer";
    const put = (place, name, html) => {
      const text = document.createElement("p");
      text.className = name;
      text.innerHTML = html;
      picture.parentElement[place](text); // which has the height of the drawing
    };
    const footer = annotations.filter(isFooter).flatMap(note => note.text.replaceAll(" <br>", " ").split("<br>"));
    put("before", "picture-title", title.text);
    put("before", "picture-text", title.subtitle.text);
    for (const line of footer.reverse()) put("after", "picture-text", line);
    fitTexts(picture);
    const bar = picture.data[0].marker?.colorbar;
    if (bar) Plotly.restyle(picture, { "marker.colorbar.len": Math.min(bar.len, picture.clientWidth - 70) }, 0);
    picture.on("plotly_afterplot", () => fitTexts(picture));
    Plotly.relayout(picture, {
      "title.text": "", "title.subtitle.text": "", "margin.t": margin.t - 64, "margin.b": margin.b - 16 - 17 * footer.length,
      annotations: annotations.filter(note => !isFooter(note)), autosize: true,
    }).then(() => Plotly.Plots.resize(picture));
  }
});
