"""`saccade-tiny`: a model of a few million parameters, made from nothing by lessons on the generated worlds."""
