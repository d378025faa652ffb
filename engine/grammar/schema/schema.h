// JSON Schema, draft 2020-12, as a grammar of the JSON texts that are written by it: every text that fits is accepted
// by the schema, and not every text that it accepts can be written.
//
//   - On one line, with at most one space behind : and , and none elsewhere. Properties come in the schema's order.
//   - Properties that are not listed are written only where additionalProperties says so (or nothing is listed).
//   - Without `type` it is what the other keywords speak of; without those, any value.
//   - Numbers: up to 16 digits before the point and 16 behind it, exponents of two digits; with bounds: no exponent,
//     and up to six decimals. Integers are written without a point.
//   - format: date, time, date-time, duration, uuid, email, hostname, ipv4, ipv6, uri (http and https),
//     uri-reference, their international forms (idn-email, iri, …) in ASCII, uri-template, json-pointer,
//     relative-json-pointer, regex (simple ones).
//   - multipleOf: whole numbers from 1 to 1000, in up to nine digits, or, with bounds, the 1024 nearest to 0.
//   - pattern, format and lengths together, also several by allOf: where their automata together are not too large.
//   - oneOf: where type, const, enum, bounds or counts, or those of a required property, tell its schemas apart, or one
//     requires what another forbids.
//   - patternProperties: one pattern. Names are written by it where none are listed; listed ones that match fit both.
//
// type, enum, const, properties, required, additionalProperties, patternProperties, propertyNames, items,
// prefixItems, minItems, maxItems, minLength, maxLength, pattern, format, minimum, maximum, exclusiveMinimum,
// exclusiveMaximum, multipleOf, minProperties and maxProperties (where the listed ones settle it), anyOf, oneOf,
// allOf, $ref within the schema, $defs. Other keywords are refused with their place; those that ask for nothing
// (title, description, default, …) are not looked at.
#ifndef PALAVER_ENGINE_GRAMMAR_SCHEMA_H
#define PALAVER_ENGINE_GRAMMAR_SCHEMA_H

#include "engine/grammar/expr.h"

// Makes the rules of a schema; what is wrong with it is the builder's error, with the schema's path.
void schema_read(Builder *builder, const char *text, size_t size);

#endif
