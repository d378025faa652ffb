"""Has palaver write replies by JSON Schemas, and asks Python's jsonschema whether it accepts them.

    python3 tests/engine/grammar/check_schemas.py [--palaver build/palaver] [--model MODEL] [--replies 2000]
                                                  [--suite FOLDER] [--tokens 200] [--device cpu] [--show]

The schemas are those below, one or more for each keyword that engine/grammar/schema/schema.h names, and, with --suite,
those of a checkout of github.com/json-schema-org/JSON-Schema-Test-Suite (tests/draft2020-12, also optional/format).
What palaver refuses must be refused with a place ("#/…") or because nothing fits; the others are asked for in turn,
each time with another seed, until --replies have ended. One that --tokens cut is counted and not judged. Exits with
1 where a reply is not accepted, or a refusal has no place.
"""
import argparse
import collections
import glob
import json
import os
import subprocess
import sys

from jsonschema import Draft202012Validator

FORMATS = Draft202012Validator.FORMAT_CHECKER
OBJECT = {"type": "object", "additionalProperties": False}
SCHEMAS = [
    True, {}, {"type": "object"}, {"type": "array", "maxItems": 4}, {"type": "string", "maxLength": 40},
    {"type": "number"}, {"type": "integer"}, {"type": "boolean"}, {"type": "null"}, {"type": ["integer", "null"]},
    {"type": ["string", "array"], "maxLength": 9, "maxItems": 2, "items": {"type": "integer"}},
    {"enum": ["red", "grün", 7, None, {"a": [1]}, "a \"quote\""]}, {"const": {"x": 1.5, "y": [True]}},
    {"type": "integer", "enum": [1, 2.5, "3", 40]},
    {"type": "integer", "minimum": -5, "maximum": 1203}, {"type": "integer", "exclusiveMinimum": 7},
    {"type": "number", "minimum": 0.5, "exclusiveMaximum": 1.25}, {"type": "number", "maximum": -3},
    {"type": "integer", "multipleOf": 7}, {"type": "integer", "multipleOf": 25, "minimum": 100, "maximum": 900},
    {"minimum": 3, "maximum": 3.5}, {"exclusiveMinimum": -1, "exclusiveMaximum": 1},
    {"type": "string", "minLength": 3, "maxLength": 12}, {"minLength": 30, "maxLength": 31},
    {"type": "string", "pattern": "^[A-Z][a-z]{2,9}( [A-Z]\\.)?$"}, {"pattern": "a+b|^c?$"},
    {"pattern": "^\\S(-|\\d){0,4}é?$"},
    {"pattern": "^[a-z ]+$", "minLength": 5, "maxLength": 30}, {"format": "uuid", "maxLength": 36},
    {"allOf": [{"pattern": "a"}, {"pattern": "^[^b]*$"}, {"minLength": 2, "maxLength": 12}]},
    {"pattern": "^[^aeiou\"\\\\]{4,20}$"},
    *({"type": "string", "format": name} for name in (
        "date", "time", "date-time", "duration", "uuid", "email", "hostname", "ipv4", "ipv6", "uri", "uri-reference",
        "json-pointer", "relative-json-pointer", "idn-email", "idn-hostname", "iri", "iri-reference", "regex")),
    {"items": {"type": "boolean"}, "minItems": 2, "maxItems": 5},
    {"prefixItems": [{"type": "integer"}, {"type": "string", "maxLength": 5}], "items": False},
    {"prefixItems": [{"const": 1}], "items": {"type": "null"}, "minItems": 1, "maxItems": 3},
    {"items": {"items": {"items": {"type": "integer"}, "maxItems": 2}, "maxItems": 2}, "maxItems": 3},
    {**OBJECT, "properties": {"name": {"type": "string", "maxLength": 20}, "age": {"type": "integer", "minimum": 0}},
     "required": ["name"]},
    {**OBJECT, "properties": {"a b": {"type": "null"}, "ü\"": {"type": "boolean"}, "": {"const": 1}}, "required": [""]},
    {"properties": {"ab": {"const": 1}, "abc": {"const": 2}}, "additionalProperties": {"type": "integer"}},
    {"required": ["x", "y"], "properties": {"x": {"type": "integer"}}},
    {"type": "object", "additionalProperties": {"type": "boolean"}, "maxProperties": 3},
    {"type": "object", "patternProperties": {"^[a-z]{1,6}$": {"type": "integer"}}, "additionalProperties": False},
    {"type": "object", "propertyNames": {"enum": ["north", "south"]}, "additionalProperties": {"type": "integer"}},
    {"type": "object", "propertyNames": {"pattern": "^[a-z]{2,5}$"}},
    {"anyOf": [{"type": "integer"}, {"type": "string", "maxLength": 6}]},
    {"type": "object", "properties": {"kind": {}}, "anyOf": [
        {"properties": {"kind": {"const": "a"}, "n": {"type": "integer"}}, "required": ["kind", "n"]},
        {"properties": {"kind": {"const": "b"}, "s": {"type": "boolean"}}, "required": ["kind"]}]},
    {"oneOf": [{"type": "null"}, {"type": "integer", "maximum": 9}, {"enum": ["x", "y"]}]},
    {"oneOf": [{"type": "integer", "maximum": 9}, {"type": "integer", "minimum": 10}]},
    {"oneOf": [{"const": 1}, {"const": 2}, {"type": "string", "maxLength": 3}, {"type": "string", "minLength": 4,
                                                                              "maxLength": 8}]},
    {"oneOf": [{**OBJECT, "properties": {"circle": {"type": "number"}}, "required": ["circle"]},
               {**OBJECT, "properties": {"square": {"type": "number"}}, "required": ["square"]}]},
    {"oneOf": [{"type": "object", "properties": {"t": {"const": "cat"}, "n": {"type": "integer"}}, "required": ["t"]},
               {"type": "object", "properties": {"t": {"const": "dog"}, "all": {"maxItems": 2}}, "required": ["t"]}]},
    {"allOf": [{"type": ["integer", "string"], "minimum": 3}, {"type": "number", "maximum": 50}]},
    {"allOf": [{"properties": {"a": {"minimum": 1}}, "required": ["a"]}, {"properties": {"a": {"type": "integer",
     "maximum": 5}, "b": {"type": "null"}}, "required": ["b"]}], "type": "object"},
    {"$defs": {"tree": {**OBJECT, "properties": {"v": {"type": "integer"}, "kids": {"type": "array", "maxItems": 2,
     "items": {"$ref": "#/$defs/tree"}}}, "required": ["v"]}}, "$ref": "#/$defs/tree"},
    {"$defs": {"n": {"type": "integer"}, "l/m~": {"type": "array", "maxItems": 2, "items": {"$ref": "#/$defs/n"}}},
     "properties": {"l": {"$ref": "#/$defs/l~1m~0"}}, "required": ["l"], "additionalProperties": False},
    {"type": "object", "properties": {"next": {"anyOf": [{"type": "null"}, {"$ref": "#"}]}}, "required": ["next"],
     "additionalProperties": False},
    {"title": "ship", "description": "A ship.", "type": "object", "properties": {"name": {"type": "string",
     "maxLength": 30, "description": "Its name."}, "masts": {"type": "integer", "minimum": 1, "maximum": 5}, "built":
     {"type": "string", "format": "date"}, "cargo": {"type": "array", "maxItems": 3, "items": {"type": "object",
     "properties": {"what": {"enum": ["tea", "coal", "wool"]}, "tons": {"type": "number", "minimum": 0}},
     "required": ["what", "tons"], "additionalProperties": False}}},
     "required": ["name", "masts", "built", "cargo"], "additionalProperties": False},
]
TURNS = ["Tell me of a ship, as JSON.", "Write a JSON value.", "A small example, please.",
         "What is your name? Answer in JSON."]


def schemas_of(suite):
    folder = os.path.join(suite, "tests", "draft2020-12")
    for path in sorted(glob.glob(folder + "/*.json") + glob.glob(folder + "/optional/format/*.json")):
        with open(path, encoding="utf-8") as file:
            for group in json.load(file):
                yield os.path.basename(path) + ": " + group["description"], group["schema"]


def ask(options, lines):
    """One answer a line, in order."""
    command = [options.palaver, *([options.model] if options.model else []), "--device", options.device,
               "--context", "1024", "--jsonl", "--ordered", "--parallel", str(options.parallel), "--temperature", "1"]
    run = subprocess.run(command, input="\n".join(map(json.dumps, lines)), capture_output=True, text=True, check=False)
    answers = [json.loads(line) for line in run.stdout.splitlines()]
    if len(answers) != len(lines):
        sys.exit(f"{command}: {len(answers)} answers to {len(lines)} lines, status {run.returncode}\n{run.stderr}")
    return answers


def line_of(schema, seed, tokens):
    return {"id": seed, "turns": [TURNS[seed % len(TURNS)]], "sampling": {"max_tokens": tokens, "seed": seed},
            "response_format": {"type": "json_schema", "json_schema": {"name": "reply", "schema": schema}}}


def why_not(validator, text):
    """None where the text is one JSON value that is accepted."""
    try:
        value = json.loads(text)
    except ValueError as error:
        return f"no JSON: {error}"
    errors = list(validator.iter_errors(value))
    return errors[0].message if errors else None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--palaver", default="build/palaver")
    parser.add_argument("--model")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--parallel", type=int, default=32)
    parser.add_argument("--replies", type=int, default=2000)
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--suite")
    parser.add_argument("--show", action="store_true")
    options = parser.parse_args()
    named = [(json.dumps(schema)[:60], schema) for schema in SCHEMAS]
    named += list(schemas_of(options.suite)) if options.suite else []
    wrong = 0
    taken = []
    for (name, schema), answer in zip(named, ask(options, [line_of(schema, 0, 1) for _, schema in named])):
        error = answer.get("error")
        if not error:
            taken.append((name, schema, Draft202012Validator(schema, format_checker=FORMATS)))
        elif "#/" not in error and "#:" not in error and "no text fits" not in error and "\\u0000" not in error:
            print(f"{name}: refused without a place: {error}")
            wrong += 1
        elif options.show:
            print(f"{name}: {error}")
    count = collections.Counter()
    asked = 0
    while count["accepted"] + count["not accepted"] < options.replies and asked < 2 * options.replies:
        some = [taken[i % len(taken)] for i in range(asked, asked + min(options.replies, 500))]
        answers = ask(options, [line_of(schema, asked + i, options.tokens) for i, (_, schema, _) in enumerate(some)])
        asked += len(some)
        for (name, _, validator), answer in zip(some, answers):
            if answer.get("finish") != "stop":
                count[answer.get("error") or answer.get("finish")] += 1
                continue
            text = answer["messages"][-1]["content"]
            reason = why_not(validator, text)
            count["not accepted" if reason else "accepted"] += 1
            if reason:
                print(f"{name}: {text!r}: {reason}")
    wrong += count["not accepted"]
    told = ", ".join(f"{n} {what}" for what, n in count.most_common())
    print(f"{len(named)} schemas, {len(taken)} taken; {asked} replies: {told}")
    if not count["accepted"]:
        sys.exit("no reply ended")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
