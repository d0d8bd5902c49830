"""How the labs are made: the generator, a new lab, the learner's copy begun afresh or helped, the
tour, the instructor's guide, a release.

Run as `python -m authoring labs|new|solve|tour|guide|release`. No lab imports it.
"""
