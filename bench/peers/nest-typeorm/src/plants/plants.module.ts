import { Module } from '@nestjs/common'
import { TypeOrmModule } from '@nestjs/typeorm'
import { Plant } from './entities/plant.entity.js'
import { PlantsController } from './plants.controller.js'
import { PlantsService } from './plants.service.js'

@Module({
  imports: [TypeOrmModule.forFeature([Plant])],
  controllers: [PlantsController],
  providers: [PlantsService]
})
export class PlantsModule {}
