"""Print the C2PA statement of the file at stdin as JSON: the script of a limited child.

Run as ``python -I c2pa_child.py MEDIA_TYPE``; prints nothing where there is none. It imports
nothing of the studio, and nothing in it reaches for the network.
"""

import json
import sys

import c2pa

_OFFLINE = {"verify": {"remote_manifest_fetch": False, "ocsp_fetch": False}}
_MAX_CHARS = 200
_MAX_TYPES = 8


def _told(manifest: dict, state: str) -> dict:
    signed = manifest.get("signature_info") or {}
    generators = manifest.get("claim_generator_info") or [{}]
    types = []
    for assertion in manifest.get("assertions") or []:
        data = assertion.get("data") if isinstance(assertion, dict) else None
        for action in (data.get("actions") or []) if isinstance(data, dict) else []:
            source_type = str(action.get("digitalSourceType") or "").rpartition("/")[2]
            if source_type and source_type not in types:
                types.append(source_type[:_MAX_CHARS])
    names = [signed.get("common_name"), signed.get("issuer")]
    return {
        "state": state,
        "signer": ", ".join(str(name)[:_MAX_CHARS] for name in names if name),
        "generator": str(generators[0].get("name") or "")[:_MAX_CHARS],
        "source_types": types[:_MAX_TYPES],
    }


if __name__ == "__main__":
    context = c2pa.Context(c2pa.Settings.from_dict(_OFFLINE))
    with open(0, "rb", closefd=False) as file:
        reader = c2pa.Reader.try_create(sys.argv[1], file, context=context)
        if reader is not None:
            manifest = reader.get_active_manifest() or {}
            print(json.dumps(_told(manifest, str(reader.get_validation_state()))))
