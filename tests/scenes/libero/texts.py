"""A task file of our own, for tests that need no package."""

TASK = """
; a comment, with (brackets)
(define (problem LIBERO_Tabletop_Manipulation)
  (:domain robosuite)
  (:language Put the Bowl on the plate)
  (:regions
    (plate_region (:target main_table) (:ranges ((0.09 0.04 0.11 0.06))))
    (bowl_region (:target main_table) (:ranges ((-0.1 -0.11 -0.08 -0.09) (-0.1 0.19 -0.08 0.21))))
    (cabinet_region (:target main_table) (:ranges ((0.02 -0.35 0.04 -0.33))) (:yaw_rotation ((3.0 3.2))))
    (stove_region (:target main_table) (:ranges ((-0.46 0.2 -0.44 0.22))))
    (top_region (:target wooden_cabinet_1))
    (top_side (:target wooden_cabinet_1))
    (cook_region (:target flat_stove_1))
  )
  (:fixtures main_table - table wooden_cabinet_1 - wooden_cabinet flat_stove_1 - flat_stove)
  (:objects akita_black_bowl_1 akita_black_bowl_2 - akita_black_bowl plate_1 - plate cookies_1 - cookies)
  (:obj_of_interest akita_black_bowl_1 plate_1)
  (:init
    (On akita_black_bowl_1 main_table_bowl_region)
    (On akita_black_bowl_2 wooden_cabinet_1_top_side)
    (On plate_1 main_table_plate_region)
    (In cookies_1 wooden_cabinet_1_top_region)
    (Open wooden_cabinet_1_top_region)
    (On wooden_cabinet_1 main_table_cabinet_region)
    (On flat_stove_1 main_table_stove_region)
  )
  (:goal (And (On akita_black_bowl_1 plate_1)))
)
"""
