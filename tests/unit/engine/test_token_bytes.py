from tiermesh.engine.adapters.token_bytes import TokenBytes

BYTE_LEVEL = TokenBytes({"Ġ", "Ġthe", "ä½", "ł", "<|im_end|>", "中"}, {"<|im_end|>"})
SENTENCE_PIECE = TokenBytes({"▁the", "<0xE4>", "</s>"}, {"</s>"})


def test_byte_level_entries_are_decoded_byte_by_byte():
    assert BYTE_LEVEL.of("Ġthe") == b" the"
    assert BYTE_LEVEL.of("ä½") + BYTE_LEVEL.of("ł") == "你".encode()


def test_special_and_added_entries_are_plain_text():
    assert BYTE_LEVEL.of("<|im_end|>") == b"<|im_end|>"
    assert BYTE_LEVEL.of("中") == "中".encode()


def test_every_byte_has_its_entry():
    entries = [chr(n) for n in (*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x144))]
    assert {BYTE_LEVEL.of(entry) for entry in entries} == {bytes([n]) for n in range(256)}


def test_sentence_piece_entries():
    assert SENTENCE_PIECE.of("▁the") == b" the"
    assert SENTENCE_PIECE.of("<0xE4>") == b"\xe4"
    assert SENTENCE_PIECE.of("</s>") == b"</s>"
