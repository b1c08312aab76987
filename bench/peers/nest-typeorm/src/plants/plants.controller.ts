import { Body, Controller, HttpCode, Post } from '@nestjs/common'
import { CreatePlantDto } from './dto/create-plant.dto.js'
import { PlantsService } from './plants.service.js'

@Controller('plants')
export class PlantsController {
  constructor(private readonly plants: PlantsService) {}

  @Post()
  @HttpCode(200)
  create(@Body() plant: CreatePlantDto) {
    return this.plants.create(plant)
  }
}
