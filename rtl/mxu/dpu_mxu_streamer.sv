// Row streamer of the MXU: walks column tiles, taps, reduction tiles and rows of a word, one ACT address a cycle.
// Each row gets a record of where its sums go. The first row of the next word follows the last one of this.
// A tile starts when the loader says so.

module dpu_mxu_streamer
  import dpu_isa_pkg::*;
  import dpu_mxu_pkg::*;
#(
  parameter int unsigned Cols = 8,
  parameter int unsigned ActWords = 1024,
  localparam int unsigned ActAw = $clog2(ActWords)
) (
  input  logic             clk_i,
  input  logic             rst_ni,

  input  logic             next_valid_i,
  output logic             next_ready_o,
  // Waiver: the loader uses the fields that this module does not.
  /* verilator lint_off UNUSEDSIGNAL */
  input  job_t             next_i,
  /* verilator lint_on UNUSEDSIGNAL */
  input  logic             tile_ready_i,
  output logic             tile_enter_o,

  output logic             act_rd_valid_o,
  output logic [ActAw-1:0] act_rd_addr_o,
  output row_t             row_o,

  output logic             held_o
);

  // The word and the place in it. `_tile` addresses begin a tile, `_line` a line of rows.

  // Waiver: upper bits, where the buffer has fewer than 2^16 words, and the loader's fields.
  /* verilator lint_off UNUSEDSIGNAL */
  job_t        job_q;
  logic [15:0] act_q;
  /* verilator lint_on UNUSEDSIGNAL */
  logic        held_q;
  logic [15:0] x_q, y_q, c_q, n_q;
  logic [7:0]  kx_q, ky_q;
  logic [15:0] line_q, c_base_q, kx_base_q, ky_base_q;
  logic [15:0] acc_q, acc_tile_q, rowmax_q, left_q;
  logic        word_first_q, row_first_q, k_first_q;  // in the word's first tile; at a tile's first row; in a first k

  logic        x_last, y_last, row_last, c_last, kx_last, ky_last, k_last, n_last;
  logic        enter, finish, take, hazard;

  assign x_last   = x_q == job_q.nx_last;
  assign y_last   = y_q == job_q.ny_last;
  assign row_last = x_last && y_last;
  assign c_last   = c_q == job_q.nc_last;
  assign kx_last  = kx_q == job_q.nkx_last;
  assign ky_last  = ky_q == job_q.nky_last;
  assign k_last   = c_last && kx_last && ky_last;
  assign n_last   = n_q == job_q.nn_last;

  assign enter        = held_q && (!row_first_q || (tile_ready_i && !hazard));
  assign finish       = enter && row_last && k_last && n_last;
  assign next_ready_o = !held_q || finish;
  assign take         = next_valid_i && next_ready_o;
  assign held_o       = held_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) held_q <= 1'b0;
    else if (next_ready_o) held_q <= next_valid_i;
  end

  // Where the next tile begins: one more along the innermost of c, kx, ky, n that has more.

  logic [15:0] step_base, step_by, tile_base;

  always_comb begin
    step_base = c_base_q;
    step_by   = job_q.sc;
    if (c_last) begin
      step_base = kx_base_q;
      step_by   = job_q.skx;
      if (kx_last) begin
        step_base = ky_last ? job_q.act : ky_base_q;
        step_by   = ky_last ? 16'd0 : job_q.sky;
      end
    end
    tile_base = step_base + step_by;
  end

  always_ff @(posedge clk_i) begin
    if (take) begin
      job_q        <= next_i;
      act_q        <= next_i.act;
      line_q       <= next_i.act;
      c_base_q     <= next_i.act;
      kx_base_q    <= next_i.act;
      ky_base_q    <= next_i.act;
      acc_q        <= next_i.acc;
      acc_tile_q   <= next_i.acc;
      rowmax_q     <= next_i.rowmax_at;
      left_q       <= next_i.valid;
      row_first_q  <= 1'b1;
      k_first_q    <= 1'b1;
      word_first_q <= 1'b1;
      x_q          <= '0;
      y_q          <= '0;
      c_q          <= '0;
      kx_q         <= '0;
      ky_q         <= '0;
      n_q          <= '0;
    end else if (enter) begin
      row_first_q <= row_last;
      acc_q       <= acc_q + 16'd1;
      rowmax_q    <= rowmax_q + 16'd1;
      if (!x_last) begin
        x_q   <= x_q + 16'd1;
        act_q <= act_q + job_q.sx;
      end else if (!y_last) begin
        x_q    <= '0;
        y_q    <= y_q + 16'd1;
        act_q  <= line_q + job_q.sy;
        line_q <= line_q + job_q.sy;
      end else begin
        x_q      <= '0;
        y_q      <= '0;
        act_q    <= tile_base;
        line_q   <= tile_base;
        c_base_q <= tile_base;
        rowmax_q <= job_q.rowmax_at;
        c_q      <= c_last ? '0 : c_q + 16'd1;
        if (c_last) begin
          kx_base_q <= tile_base;
          kx_q      <= kx_last ? '0 : kx_q + 8'd1;
          if (kx_last) begin
            ky_base_q <= tile_base;
            ky_q      <= ky_last ? '0 : ky_q + 8'd1;
          end
        end
        word_first_q <= 1'b0;
        k_first_q    <= k_last;
        acc_q        <= k_last ? acc_tile_q + job_q.an : acc_tile_q;
        if (k_last) begin
          acc_tile_q <= acc_tile_q + job_q.an;
          n_q        <= n_q + 16'd1;
          left_q     <= left_q > 16'(Cols) ? left_q - 16'(Cols) : '0;
        end
      end
    end
  end

  // A sum is in the drain for three cycles. A row of the next tile comes at least three cycles after the same row of
  // this one (the loader sees to it); only a word that adds to the last two rows of the word before must let them pass.

  logic [1:0]  entered_q;
  logic [15:0] acc_last_q, rowmax_last_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) entered_q <= '0;
    else entered_q <= {entered_q[0], enter};
  end

  always_ff @(posedge clk_i) begin
    if (enter) begin
      acc_last_q    <= acc_q;
      rowmax_last_q <= rowmax_q;
    end
  end

  function automatic logic near(logic [15:0] first, logic [15:0] last);
    return first == last || first + 16'd1 == last;
  endfunction

  assign hazard = word_first_q && entered_q != '0 &&
                  ((job_q.mode == MmModeAccumulate && near(acc_q, acc_last_q)) ||
                   (job_q.rowmax == RowMaxAccumulate && near(rowmax_q, rowmax_last_q)));

  assign tile_enter_o   = enter && row_first_q;
  assign act_rd_valid_o = enter;
  assign act_rd_addr_o  = act_q[ActAw-1:0];

  always_comb begin
    row_o         = '0;
    row_o.acc     = acc_q;
    row_o.rowmax  = rowmax_q;
    row_o.replace = job_q.rowmax == RowMaxInit && n_q == '0;
    row_o.add     = !k_first_q || job_q.mode == MmModeAccumulate;
    row_o.last    = finish;
    if (job_q.rowmax != RowMaxNone && k_last) row_o.cols = left_q > 16'(Cols) ? 8'(Cols) : left_q[7:0];
  end

endmodule
