// Draft graphs: which sets of positions were drafted, which of them were accepted, and under which other set.

const RANKING = 150;
const RANKING_ROW = 20;
const NODE = { wide: 74, tall: 34, across: 18, down: 12 };

/** The ranking that drafts were made from beside the sets that were tried, one column a level. */
class GraphView extends LastView {
  column = "graph";
  nothing = "No drafts";
  supports = ({ graphs }) => graphs.levels > 0;
  heightFor = (_, { graphs }) => Math.max(graphs.widest * (NODE.tall + NODE.down), (graphs.levels + 1) * RANKING_ROW) + 30;

  constructor() {
    super("graph", "Drafts of later steps");
    this.list = new FoldedList("Every draft in words", "Every draft of this pass", () => this.lines());
    this.figure.append(this.words, this.list.node);
  }

  use(step, replay) {
    if (step === this.step) return;
    Object.assign(this, { step, drafts: step && draftsOf(step), replay });
    this.list.fill();
  }

  sentence() {
    const { graph, signals } = this.step;
    const winner = graph[signals.winner] ?? graph[0];
    const tried = graph.filter(({ positions }) => positions.length > 0).length;
    const kept = winner.positions.length ? `the largest one kept fills ${this.named(winner)}` : "none was kept";
    return `${tried} drafts in this pass: ${kept}.`;
  }

  named({ positions }) {
    return positions.length ? positions.map((position) => this.wordAt(position)).join(", ") : "nothing";
  }

  wordAt(position) {
    return this.replay.tokenText(this.drafts.get(position)?.token);
  }

  lines() {
    const { graph, signals } = this.step ?? { graph: [] };
    return graph.map((node, index) => {
      const under = node.acceptedUnder.map((parent) => `{${ranksOf(graph[parent], this.drafts)}}`).join(" and ");
      const fate = node.accepted ? (index === signals.winner ? "kept" : "accepted") : "rejected";
      return `{${ranksOf(node, this.drafts)}} fills ${this.named(node)}: ${fate}${under ? `, accepted under ${under}` : ""}`;
    });
  }

  paint(scene, context) {
    this.spots = [];
    if (!this.step) return;
    const room = this.width < 420 ? 0 : RANKING;
    const ranking = room ? "left: ranking, old and new probability · " : "numbers = ranks by confidence · ";
    say(this.note, `${ranking}filled = accepted · framed = kept · line = accepted under`);
    if (room) this.paintRanking(scene, context, room);
    this.paintGraph(scene, context, room);
  }

  /** The drafted positions, the most confident first, with the probability before and after. */
  paintRanking(scene, context, room) {
    const { theme, position: chosen } = scene;
    const listed = [...this.drafts.values()].sort((a, b) => a.rank - b.rank);
    listed.forEach((draft, index) => {
      const y = 22 + index * RANKING_ROW;
      this.spots.push({ x: 0, y: y - RANKING_ROW / 2, wide: room - 14, tall: RANKING_ROW, position: draft.position });
      fillBox(context, theme.surface.line, 16, y + 5, (room - 34) * (draft.q ?? 0), 3);
      fillBox(context, theme.fills[draft.code] ?? theme.surface.muted, 16, y + 8, (room - 34) * (draft.p ?? 0), 3);
      this.label(context, scene, String(draft.rank), 10, y, "right");
      this.write(context, theme.surface.text, this.replay.tokenText(draft.token), 16, y - 1, room - 34);
      if (chosen === draft.position) drawOutline(context, 14, y - 8, room - 30, 18);
    });
  }

  paintGraph(scene, context, left) {
    const { theme } = scene;
    const { graph, signals } = this.step;
    const places = this.places(graph, left);
    const edge = (from, to, strong) => {
      const ends = [[places[from].x + places[from].wide, places[from].y + NODE.tall / 2], [places[to].x, places[to].y + NODE.tall / 2]];
      drawLine(context, ends, strong ? theme.surface.accent : theme.surface.muted, strong ? 2.5 : 0.5);
    };
    for (const strong of [false, true]) {
      graph.forEach((node, index) => {
        const next = node.parents.filter((parent) => graph[parent].positions.length + 1 === node.positions.length);
        for (const parent of strong ? node.acceptedUnder : next) edge(parent, index, strong);
      });
    }
    graph.forEach((node, index) => this.paintNode(scene, context, node, { ...places[index], won: index === signals.winner }));
  }

  /** Where the nodes lie: a column a level. */
  places(graph, left) {
    const levels = Math.max(...graph.map(({ positions }) => positions.length)) + 1;
    const pitch = Math.min(NODE.wide + NODE.across, (this.width - left - 4) / levels);
    const wide = Math.max(16, pitch - Math.min(NODE.across, pitch * 0.25));
    const used = [];
    return graph.map(({ positions }) => {
      const level = positions.length;
      const place = used[level] ?? 0;
      used[level] = place + 1;
      return { x: left + 2 + level * pitch, y: 8 + place * (NODE.tall + NODE.down), wide };
    });
  }

  paintNode({ theme, position }, context, node, { x, y, wide, won }) {
    const { surface } = theme;
    const last = node.positions.at(-1);
    if (last !== undefined) this.spots.push({ x, y, wide, tall: NODE.tall, position: last });
    fillBox(context, node.accepted ? surface.accent : surface.panel, x, y, wide, NODE.tall);
    context.lineWidth = 1;
    context.strokeStyle = surface.muted;
    context.setLineDash(node.accepted ? [] : [3, 3]);
    context.strokeRect(x + 0.5, y + 0.5, wide - 1, NODE.tall - 1);
    context.setLineDash([]);
    const ink = node.accepted ? surface.background : surface.text;
    this.write(context, ink, node.positions.length ? `{${ranksOf(node, this.drafts)}}` : "no drafts", x + 5, y + 11, wide - 8);
    if (last !== undefined) this.write(context, ink, this.wordAt(last), x + 5, y + 25, wide - 8);
    if (won || (last !== undefined && last === position)) drawOutline(context, x, y, wide, NODE.tall);
  }

  write(context, color, text, x, y, room) {
    drawWithin(context, [x, y - 10, room, 20], () => drawText(context, color, text, x, y));
  }
}

/** Position -> the draft that stood there: its rank, token, verdict, probability before (q) and after (p). */
function draftsOf(step) {
  const drafts = new Map();
  const order = [...new Set(step.graph.flatMap(({ positions }) => positions))];
  for (const [entry, position] of step.position.entries()) {
    if (!order.includes(position) || drafts.has(position)) continue;
    const rank = step.numbers.rank?.[entry] ?? order.indexOf(position) + 1;
    const token = step.draft?.[entry] ?? step.token[entry];
    drafts.set(position, { position, rank, token, code: step.fate[entry], p: step.p?.[entry], q: step.q?.[entry] });
  }
  return drafts;
}

function ranksOf({ positions }, drafts) {
  return positions.map((position) => drafts.get(position)?.rank ?? "?").join(" ");
}
