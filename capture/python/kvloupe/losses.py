"""How probable the model found each token: /tokens/nll, from the logits that it gives anyway. Needs torch."""
import torch

from .errors import KvloupeError

# Rows of logits that are widened at a time.
MOST_ROWS = 256


class Losses:
    """`take` gets the output of each forward in turn."""

    def __init__(self, batch_index):
        self._batch_index = batch_index
        self._last = None  # logits [1, vocabulary] after the newest token

    def take(self, output, ids):
        """-log P of each of the tokens fed, float32 [tokens]; of the first of all infinity."""
        logits = self._rows(output, len(ids))
        with torch.no_grad():
            wanted = torch.tensor(ids, device=logits.device)
            pieces = [self._of_rows(logits[begin : begin + MOST_ROWS], wanted[begin + 1 : begin + 1 + MOST_ROWS])
                      for begin in range(0, len(ids) - 1, MOST_ROWS)]
            if self._last is None:
                first = torch.full((1,), float("inf"), device=logits.device)
            else:
                first = self._of_rows(self._last.to(logits.device), wanted[:1])
            self._last = logits[-1:].clone()
            return torch.cat([first, *pieces]).cpu().numpy()

    def _rows(self, output, count):
        """[tokens, vocabulary]"""
        logits = getattr(output, "logits", None)
        if logits is None:
            raise self._refused("the model's output has no logits", "record the model with its language head, as AutoModelForCausalLM "
                                "loads it, and call that one, with return_dict=True")
        if hasattr(logits, "full_tensor"):
            logits = logits.full_tensor()
        if logits.shape[1] < count:
            raise self._refused(f"the model gave the logits of {logits.shape[1]} token{'s'[: logits.shape[1] > 1]} of {count}",
                                "pass logits_to_keep=0 to model(...) or model.generate(...)")
        # Tokens that come first and are not recorded are padding.
        return logits[self._batch_index, -count:].detach()

    @staticmethod
    def _refused(why, what_to_do):
        return KvloupeError("the loss of the tokens cannot be stored", why, f"{what_to_do}, or leave loss and probe out of store")

    @staticmethod
    def _of_rows(logits, wanted):
        """Of the token that follows each row; the last row may have none."""
        logits = logits[: len(wanted)].float()
        losses = logits.logsumexp(-1) - logits.gather(-1, wanted.unsqueeze(-1)).squeeze(-1)
        return losses.clamp_(min=0)  # Rounding may make it fall below.
