"""The description of the API, and whether an answer is as it says. As much of JSON Schema as it uses."""

KINDS = {"object": dict, "array": list, "string": str, "boolean": bool, "integer": int, "number": (int, float),
         "null": type(None)}
KNOWN = {"type", "properties", "required", "additionalProperties", "items", "enum", "$ref", "description", "format"}


class Description:
    def __init__(self, document):
        self.paths = document["paths"]
        self.schemas = document["components"]["schemas"]

    def calls(self):
        for path, methods in self.paths.items():
            for method, call in methods.items():
                yield method.upper(), path, call

    def answer(self, method, path):
        """The type of the answer, and its schema."""
        content = self.paths[path][method.lower()]["responses"]["200"]["content"]
        ((kind, answer),) = content.items()
        return kind, answer["schema"]

    def error(self):
        return {"$ref": "#/components/schemas/Error"}

    def wrong(self, schema, value, where="answer"):
        """What does not fit, as a list of texts."""
        while "$ref" in schema:
            schema = self.schemas[schema["$ref"].rsplit("/", 1)[1]]
        unknown = set(schema) - KNOWN
        if unknown:
            return [f"{where}: this checker does not know {unknown}"]
        kinds = schema.get("type", list(KINDS))
        kinds = [kinds] if isinstance(kinds, str) else kinds
        if not any(isinstance(value, KINDS[kind]) and (not isinstance(value, bool) or kind == "boolean") for kind in kinds):
            return [f"{where}: {value!r} is not {kinds}"]
        if "enum" in schema and value not in schema["enum"]:
            return [f"{where}: {value!r} is not one of {schema['enum']}"]
        if isinstance(value, dict):
            return self._wrong_object(schema, value, where)
        if isinstance(value, list) and "items" in schema:
            return [text for i, one in enumerate(value) for text in self.wrong(schema["items"], one, f"{where}[{i}]")]
        return []

    def _wrong_object(self, schema, value, where):
        texts = [f"{where}.{name} is missing" for name in schema.get("required", []) if name not in value]
        more = schema.get("additionalProperties", True)
        for name, one in value.items():
            if name in schema.get("properties", {}):
                texts += self.wrong(schema["properties"][name], one, f"{where}.{name}")
            elif more is False:
                texts.append(f"{where}.{name} is not described")
            elif isinstance(more, dict):
                texts += self.wrong(more, one, f"{where}.{name}")
        return texts
