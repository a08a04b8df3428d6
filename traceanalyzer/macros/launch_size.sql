-- Grid and block of a launch as one value to compare; NULL, which is equal to nothing, where one of them is not written.
CREATE OR REPLACE MACRO launch_size(grid_x, grid_y, grid_z, block_x, block_y, block_z) AS
    CASE
        WHEN grid_x + grid_y + grid_z + block_x + block_y + block_z IS NOT NULL
        THEN {'grid': [grid_x, grid_y, grid_z], 'block': [block_x, block_y, block_z]}
    END;
