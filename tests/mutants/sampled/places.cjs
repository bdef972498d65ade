// Places where JavaScript can be changed: the operators of places.py, on the parser that Node brings along.
//
// node --expose-internals places.cjs FILE... prints {file: [{line, start, end, old, news, operator}]} as JSON.
// Strings, regular expressions and imports are left alone.

"use strict";

const { readFileSync } = require("node:fs");
const acorn = require("internal/deps/acorn/acorn/dist/acorn");

const INFIX = {
  "<": ["<=", ">="], "<=": ["<", ">"], ">": [">=", "<="], ">=": [">", "<"],
  "===": ["!=="], "!==": ["==="], "==": ["!="], "!=": ["=="],
  "+": ["-"], "-": ["+"], "*": ["/"], "/": ["*"], "%": ["*"], "**": ["*"],
  "<<": [">>"], ">>": ["<<"], ">>>": ["<<"], "&": ["|"], "|": ["&"], "^": ["&"],
  "&&": ["||"], "||": ["&&"], "??": ["&&"],
};
const NAMES = {
  min: "max", max: "min", some: "every", every: "some", floor: "ceil", ceil: "floor",
  startsWith: "endsWith", endsWith: "startsWith",
};
const LEFT_ALONE = new Set(["ImportDeclaration", "ExportAllDeclaration", "ImportExpression"]);

function findPlaces(text) {
  const tokens = [];
  const tree = acorn.parse(text, { ecmaVersion: "latest", sourceType: "module", onToken: tokens, locations: true });
  const places = [];
  const add = (start, end, news, operator) => {
    const line = text.slice(0, start).split("\n").length;
    places.push({ line, start, end, old: text.slice(start, end), news, operator });
  };
  const between = (left, right, sign) =>
    tokens.find((token) => token.start >= left.end && token.end <= right.start && text.slice(token.start, token.end) === sign);
  const condition = (test, news = ["true", "false"]) => test && add(test.start, test.end, news, "condition");

  const look = {
    BinaryExpression: (node) => infix(node),
    LogicalExpression: (node) => infix(node),
    UnaryExpression: (node) => {
      if ("!-~".includes(node.operator)) add(node.start, node.start + 1, [""], "prefix");
    },
    UpdateExpression: (node) => {
      const start = node.prefix ? node.start : node.end - 2;
      add(start, start + 2, [node.operator === "++" ? "--" : "++"], "assignment");
    },
    AssignmentExpression: (node) => {
      const news = (INFIX[node.operator.slice(0, -1)] ?? []).map((sign) => `${sign}=`);
      const token = between(node.left, node.right, node.operator);
      if (news.length && token) add(token.start, token.end, news, "assignment");
    },
    Literal: (node) => {
      const number = node.bigint !== undefined ? `${BigInt(node.bigint) + 1n}n,${BigInt(node.bigint) - 1n}n`.split(",")
        : typeof node.value === "number" ? [`${node.value + 1}`, `${node.value - 1}`] : null;
      if (number) add(node.start, node.end, number, "number");
      else if (typeof node.value === "boolean") add(node.start, node.end, [`${!node.value}`], "truth");
    },
    MemberExpression: (node) => {
      const name = node.property.name;
      if (!node.computed && Object.hasOwn(NAMES, name)) add(node.property.start, node.property.end, [NAMES[name]], "name");
      if (node.optional) {
        const token = between(node.object, node.property, "?.");
        if (token) add(token.start, token.end, node.computed ? [""] : ["."], "optional");
      }
    },
    IfStatement: (node) => condition(node.test),
    ConditionalExpression: (node) => condition(node.test),
    WhileStatement: (node) => condition(node.test, ["false"]),
    ForStatement: (node) => condition(node.test, ["false"]),
    ReturnStatement: (node) => {
      if (node.argument) add(node.argument.start, node.argument.end, ["undefined"], "result");
    },
    ArrowFunctionExpression: (node) => {
      if (node.expression && node.body.type !== "ObjectExpression") add(node.body.start, node.body.end, ["undefined"], "result");
    },
    ThrowStatement: (node) => add(node.start, node.end, [";"], "statement left out"),
    ExpressionStatement: (node) => {
      const kinds = ["CallExpression", "AwaitExpression", "AssignmentExpression", "YieldExpression"];
      if (kinds.includes(node.expression.type)) add(node.start, node.end, [";"], "statement left out");
    },
    BreakStatement: (node) => {
      if (!node.label) add(node.start, node.start + 5, ["continue"], "loop");
    },
    ContinueStatement: (node) => {
      if (!node.label) add(node.start, node.start + 8, ["break"], "loop");
    },
  };

  function infix(node) {
    const token = Object.hasOwn(INFIX, node.operator) && between(node.left, node.right, node.operator);
    if (token) add(token.start, token.end, INFIX[node.operator], node.operator);
  }

  function walk(node) {
    if (LEFT_ALONE.has(node.type)) return;
    look[node.type]?.(node);
    for (const [name, value] of Object.entries(node)) {
      if (name === "key" && !node.computed) continue;
      for (const child of Array.isArray(value) ? value : [value]) if (typeof child?.type === "string") walk(child);
    }
  }

  walk(tree);
  const fine = (place) => (piece) => parses(text.slice(0, place.start) + piece + text.slice(place.end));
  return places.map((place) => ({ ...place, news: place.news.filter(fine(place)) }))
    .filter((place) => place.news.length)
    .sort((one, other) => one.start - other.start || other.end - one.end);
}

function parses(text) {
  try {
    acorn.parse(text, { ecmaVersion: "latest", sourceType: "module" });
    return true;
  } catch {
    return false; // `continue` in a switch
  }
}

const found = Object.fromEntries(process.argv.slice(2).map((file) => [file, findPlaces(readFileSync(file, "utf8"))]));
process.stdout.write(JSON.stringify(found));
