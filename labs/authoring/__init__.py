"""How the labs are made: the generator, a new lab, the learner's copy begun afresh or helped, the tour.

Run as `python -m authoring labs|new|reset|solve|tour`. No lab imports it.
"""
