"""The rows of class_table.py, each with the outcome that it names."""
import unittest

from . import class_table_rows as rows
from .class_table import RIGHT, judge, plain_attentions


class ClassTable(unittest.TestCase):
    def check(self, some):
        for row in some:
            with self.subTest(name=row.name, way=row.way):
                outcome = judge(row)
                self.assertTrue(outcome.as_expected, f"{outcome.text}, differs by {outcome.largest}; expected: {row.expected}")

    def test_classes(self):
        self.assertGreaterEqual(len({row.name for row in rows.CLASSES}), 45)
        self.check(rows.CLASSES)

    def test_layers_that_a_refusal_names(self):
        self.check(rows.ADVISED)

    def test_generating(self):
        self.check(rows.GENERATED)

    def test_ways_of_calling(self):
        self.check(rows.WAYS)

    def test_compiled(self):
        self.check(rows.COMPILED)

    def test_adapted(self):
        self.check(rows.ADAPTED)

    def test_images(self):
        self.check(rows.IMAGES)

    def test_a_layer_without_its_softcap_would_show(self):
        """That the comparison sees what it is for."""
        row = next(row for row in rows.CLASSES if row.name == "Gemma2ForCausalLM")

        def other(model, ids):
            for module in model.modules():
                if hasattr(module, "attn_logit_softcapping"):
                    module.attn_logit_softcapping = None
            return plain_attentions(model, ids)
        wrong = judge(rows.Row(row.name, row.way, RIGHT, row.run, reference=other))
        self.assertEqual(wrong.text, RIGHT)
        self.assertGreater(wrong.largest, 1e-4)
        self.assertFalse(wrong.as_expected)


if __name__ == "__main__":
    unittest.main()
