//! The version that a bill of materials has of this program.

#[test]
fn the_program_carries_its_version_where_a_builder_of_another_architecture_finds_it() {
    let program = std::fs::read(assert_cmd::cargo::cargo_bin("kubexm-install")).unwrap();
    assert_eq!(kubexm_spec::names::program_version(&program), Some(env!("CARGO_PKG_VERSION")));
}
