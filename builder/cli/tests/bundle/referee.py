"""Referees of documents about a bundle: the formats' own schemas and readers. `referee.py FORMAT FILE`; silent when all is well."""
import json
import sys

from packageurl import PackageURL


def purls(all_of_them):
    for purl in all_of_them:
        assert PackageURL.from_string(purl).to_string() == purl, f"{purl} is not as a purl is written"


def cyclonedx(path):
    from cyclonedx.model.bom import Bom
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    text = open(path).read()
    error = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    assert error is None, error
    # Its own model takes it too: references that lead nowhere are found there.
    bom = Bom.from_json(json.loads(text))
    assert bom.validate()
    purls(component.purl.to_string() for component in bom.components)
    purls(component["purl"] for component in json.loads(text)["components"])


def spdx(path):
    from spdx_tools.spdx.parser.parse_anything import parse_file
    from spdx_tools.spdx.validation.document_validator import validate_full_spdx_document

    document = parse_file(path)
    messages = validate_full_spdx_document(document, spdx_version="SPDX-2.3")
    assert not messages, [message.validation_message for message in messages]
    purls(ref.locator for package in document.packages for ref in package.external_references)


def intoto(path):
    from google.protobuf.json_format import Parse
    from in_toto_attestation.predicates.provenance.v1.provenance_pb2 import Provenance
    from in_toto_attestation.v1 import statement_pb2
    from in_toto_attestation.v1.resource_descriptor import ResourceDescriptor
    from in_toto_attestation.v1.statement import Statement

    text = open(path).read()
    statement = Parse(text, statement_pb2.Statement())  # refuses fields it does not know
    Statement.copy_from_pb(statement).validate()
    assert statement.predicate_type == "https://slsa.dev/provenance/v1"
    provenance = Parse(json.dumps(json.loads(text)["predicate"]), Provenance())
    build = provenance.build_definition
    assert build.build_type and build.external_parameters.fields and provenance.run_details.builder.id
    for dependency in build.resolved_dependencies:
        ResourceDescriptor.copy_from_pb(dependency).validate()
    purls(dependency.uri for dependency in build.resolved_dependencies)


{"cyclonedx": cyclonedx, "spdx": spdx, "intoto": intoto}[sys.argv[1]](sys.argv[2])
