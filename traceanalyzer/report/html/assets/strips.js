// Rows of boxes on a canvas: timelines, and the flame graph.
function startStrips() {}
